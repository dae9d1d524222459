"""Kimi K2.5 in torch: model, engine, OpenAI-compatible server. Importing this loads nothing heavy."""
