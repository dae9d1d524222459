"""Several processes for one model."""
