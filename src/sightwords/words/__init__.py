"""Section 3: an image -> words with a probability, a precision and a box.

In stage order: `detector` (Eq. 2), `noisy_or` (Eq. 1), `calibration` and `selection` (section 3.2),
then `maps`, `boxes` and `heatmap`, which show where a word is. `artefact` is the detector on disk.
"""
