"""Drawn screens with known bounding boxes, for training and testing nano-K2.5."""
