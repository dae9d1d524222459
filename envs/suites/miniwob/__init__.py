"""MiniWoB++: 125 small web pages, each with a random instruction and its own reward.

Source: https://miniwob.farama.org; Liu et al. 2018, arXiv:1802.08802. The pages are from PyPI's `miniwob` (MIT).
"""
