"""vLLM as the production engine, and planning of GPU memory."""
