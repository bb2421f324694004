"""A new last layer on an exported detector, whose network stays as it is (section 3.1)."""
