"""Screens drawn with known boxes: what nano-K2.5 learns from and is tested on."""
