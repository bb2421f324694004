"""Training of the language model (section 4.1)."""
