"""Rules that turn the image of a page into HTML, without a model."""
