"""Section 5: an M-best list -> the caption that fits this image.

Open, in stage order: `dmsm` (section 5.1), `features` (Table 2), `linear` (the weights of MERT).
"""
