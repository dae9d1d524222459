"""Similarity of two web pages: text blocks as compared by Design2Code, and visual appearance."""
