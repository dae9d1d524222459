"""Tasks that the agent finishes and that verify themselves: `python -m examples` lists them."""
