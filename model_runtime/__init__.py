"""Kimi K2.5 in torch: model, engine, OpenAI-compatible server. The import loads no heavy packages."""
