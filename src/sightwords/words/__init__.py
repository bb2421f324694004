"""Section 3: an image -> words with a probability, a precision and a place.

In stage order: `detector` (Eq. 2), `noisy_or` (Eq. 1), `calibration` (section 3.2), then `boxes`
and `heatmap` for looking; `artefact` is the detector on disk.
"""
