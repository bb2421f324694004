"""One reader per format: COCO, Karpathy, Flickr, PASCAL, Hugging Face, and lists of your own.

A reader yields `records.Located` pairs. `json_items` and `table` walk large JSON and CSV files.
Shards have their reader in `corpus.shards`, since the batch and training read them too.
"""
