"""Images and captions on their way into a training loop: tables, shards, batches."""
