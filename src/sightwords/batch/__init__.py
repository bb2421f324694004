"""Many photographs in one run: folders, lists, shards -> JSONL, COCO results, CSV, sidecars.

sources    which photographs
workers    several processes, results in order
journal    what is done, so that a killed run goes on
records    a caption as JSON
outputs    the files that come out
run        all of it in order
"""

from sightwords.batch.options import BatchOptions, Progress
from sightwords.batch.outputs import FORMATS, Format, format_of
from sightwords.batch.run import run_batch
from sightwords.batch.sources import Source, open_source

__all__ = [
    "FORMATS",
    "BatchOptions",
    "Format",
    "Progress",
    "Source",
    "format_of",
    "open_source",
    "run_batch",
]
