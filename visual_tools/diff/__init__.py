"""Differences between two images, grouped as a person would list them."""
