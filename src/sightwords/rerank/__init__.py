"""Section 5: an M-best list -> the caption that fits this image.

In stage order: `dmsm` (section 5.1) and `grounded` judge sentences by the image, `features` (Table
2) and `consensus` compare them with each other; `linear` weighs all features as MERT tuned them,
`confidence` gives the probability that the choice is good, and `chooser` combines all of it.
"""
