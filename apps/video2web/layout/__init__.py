"""From the image of a page to its HTML by rules, without a model."""
