"""Colours of an image: a palette, the share of each colour in a pie, in bars or in an image, and colour masks."""
