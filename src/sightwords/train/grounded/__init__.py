"""Training of the grounded model (section 5, beyond the paper)."""
