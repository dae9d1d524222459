"""Conversion of conversations to prompts, and of replies to messages.

pieces = render_chat(messages, tools)           # markers, untrusted text and media, separate
prompt = encode_chat(pieces, tokenizer)         # token ids; only markers become control tokens
show_chat(pieces)                               # for people
"""
