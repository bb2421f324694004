"""Training of the word detector (section 3)."""
