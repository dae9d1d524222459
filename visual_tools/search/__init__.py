"""Search an image for smaller images, codes, and text."""
