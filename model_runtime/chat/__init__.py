"""Conversations to prompts, and replies to messages."""
