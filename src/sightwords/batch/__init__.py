"""Many photographs in one run: folders, lists, shards -> JSONL, COCO results, CSV, Parquet,
sidecars.

sources    which photographs
workers    several processes, results in order
journal    what is done, so that a killed run goes on
records    a caption as JSON
outputs    the files that come out
run        all of it in order
cluster    the same on many machines, by Ray: units, nodes, store, parts, keys
"""

from sightwords.batch.cluster import run_on_ray
from sightwords.batch.options import BatchOptions, ClusterOptions, Progress
from sightwords.batch.outputs import FORMATS, Format, format_of
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
