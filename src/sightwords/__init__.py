"""sightwords: captions you can check.

    import sightwords
    captioner = sightwords.load()
    caption = captioner("photo.jpg")

Every word of a caption has a probability, a precision and a place in the image. The system is
that of "From Captions to Visual Concepts and Back" (Fang et al., CVPR 2015); `pipeline.py` is
its table of contents, `docs/paper_map.md` lists where each section of the paper is.
"""

from sightwords._version import __version__
from sightwords.errors import (
    BundleError,
    ConfigError,
    CorpusError,
    ExternalToolError,
    ImageError,
    InputError,
    MissingExtraError,
    ScoreError,
    SightwordsError,
    VocabularyError,
)
from sightwords.images import ImageLimits
from sightwords.pipeline import Captioner, Trace, load
from sightwords.types import Caption

__all__ = [
    "BundleError",
    "Caption",
    "Captioner",
    "ConfigError",
    "CorpusError",
    "ExternalToolError",
    "ImageError",
    "ImageLimits",
    "InputError",
    "MissingExtraError",
    "ScoreError",
    "SightwordsError",
    "Trace",
    "VocabularyError",
    "__version__",
    "load",
]
