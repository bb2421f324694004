"""Section 3: an image -> words with a probability, a precision and a place.

In stage order: `detector` (Eq. 2, and the whole of the section), `noisy_or` (Eq. 1), `calibration`
(section 3.2). Beside them `artefact` (a detector on disk), `calibration_fit` and `reliability`
(making and checking a calibration), `boxes` and `heatmap` (where a word is), `proposals` (the early
system's regions).
"""
