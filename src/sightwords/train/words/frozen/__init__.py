"""A new last layer on a network that stays as it is (section 3.1)."""
