"""vLLM as the production engine, and what fits where."""
