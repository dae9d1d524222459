"""Requests as they are asked, to prompts and sampling parameters as the engine takes them."""
