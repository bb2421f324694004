"""The shard loader: detector training straight from webdataset shards (`run.stream`).

    index.py          one pass over the shards before training: counts, held-out images
    lanes.py          which image comes when, and its decoded pixels
    loader.py         batches on the device that trains: `ShardLoader`
    workers.py        processes that decode into batches in shared memory
    decoded_cache.py  decoded images on a local disk, for the next epoch (`run.keep_decoded`)

Why not webdataset with torch's `DataLoader`: on one H200 with 16 cores this loader reads the same
JPEG shards 1.8 times as fast at 224 px and 2.0 times at 336 px with 16 workers (1.2 and 1.4 times
with 4), and training waits .2 % of the time for images instead of 5.3 %:

    python benchmarks/training_speed.py coco-test-00.tar --device cuda --workers 4 16

It also keeps three promises that a `DataLoader` keeps only for a fixed number of workers: a step
sees the same images on any number of workers and processes; processes see disjoint images; and a
resumed run continues with the next step's images. docs/scale.md has all figures.
"""
