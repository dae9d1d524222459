"""Training of nano-K2.5, a small model of the release's architecture, on drawn screens."""
