"""Prompt injection: small web apps, texts planted in them, and how far an agent obeys these."""
