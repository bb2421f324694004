"""Caption and word metrics (section 6), one file each, equal to the tools the field reports with."""
