"""Load, save, crop, rotate and annotate images."""
