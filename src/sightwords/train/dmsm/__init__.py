"""Training of the deep multimodal similarity model (section 5.1)."""
