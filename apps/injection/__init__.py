"""Prompt injection: small web apps with planted texts, and a measure of how far an agent obeys them."""
