"""M-best lists, MERT and confidence (section 5)."""
