"""Word detectors over object proposals instead of a grid (section 6.3)."""
