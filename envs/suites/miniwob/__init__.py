"""MiniWoB++: 125 small web pages, each with an instruction drawn at random and a reward of its own.

Source: https://miniwob.farama.org; Liu et al. 2018, arXiv:1802.08802. The pages are those of PyPI's `miniwob` (MIT).
"""
