"""Section 5: an M-best list -> the caption that fits this image.

In stage order: `dmsm` (section 5.1) and `grounded` judge sentences by the image, `features` (Table
2) and `consensus` by themselves; `linear` weighs them as MERT found best, `confidence` says what
the choice is worth, and `chooser` puts all of it into one call.
"""
