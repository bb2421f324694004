"""Reads every caption corpus: `open_corpus(source)` -> `Example`s, lazily.

    COCO JSON, Karpathy JSON, Flickr tokens, PASCAL sentences, shards, manifests, Hugging Face
        -> recognise -> reader -> checked -> Example

Bad records are left out, counted and named in `Corpus.problems`; the others are still read.
"""

from sightwords.corpus.open import Corpus, open_corpus
from sightwords.corpus.problems import Kind, Problem, Problems

__all__ = ["Corpus", "Kind", "Problem", "Problems", "open_corpus"]
