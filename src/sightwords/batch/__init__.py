"""Many photos in one run: folders, lists, shards -> JSONL, COCO results, CSV, Parquet, sidecars.

run          START HERE: the modules below, in this order
sources      which photos
workers      captions from several processes, in order
journal      what is done, so that a killed run can be resumed
outputs      one results file: JSONL, COCO, CSV; parquet.py
photo_files  one file per photo: texts, XMP sidecars, copies with the caption inside (xmp/)
options      what the user asked for, and how far the run is
records      a caption as JSON
sums         whether a photo is still the one that was captioned
ray/         the same on many machines
"""

from sightwords.batch.options import BatchOptions, ClusterOptions, Progress
from sightwords.batch.outputs import FORMATS, Format, format_of
from sightwords.batch.ray.run import run_on_ray
from sightwords.batch.run import run_batch
from sightwords.batch.sources import Source, open_source

__all__ = [
    "FORMATS",
    "BatchOptions",
    "ClusterOptions",
    "Format",
    "Progress",
    "Source",
    "format_of",
    "open_source",
    "run_batch",
    "run_on_ray",
]
