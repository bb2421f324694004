"""Caption and word metrics (section 6), one file each, equal to the tools the field reports with.

Captions: `score` (what goes in and comes out), then `bleu`, `rouge`, `cider`, `meteor`, which share
the n-gram counts of `ngrams`. Language models: `perplexity`. Detected words: `word_ap`, with its
tables in `word_table`. Judging the scores themselves: `significance`, `agreement`.
"""
