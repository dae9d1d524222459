"""Conversion of conversations to prompts, and of replies to messages.

pieces = render_chat(messages, tools)           # markers, untrusted text and media, separate
prompt = encode_chat(pieces, tokenizer)         # token ids; only markers become control tokens
show_chat(pieces)                               # for people
"""

from model_runtime.chat.messages import ChatMessage, ImagePart, Part, TextPart, ToolCall, ToolSpec, VideoPart
from model_runtime.chat.template import ControlToken, Piece, encode_chat, render_chat, show_chat

__all__ = [
    "ChatMessage",
    "ControlToken",
    "ImagePart",
    "Part",
    "Piece",
    "TextPart",
    "ToolCall",
    "ToolSpec",
    "VideoPart",
    "encode_chat",
    "render_chat",
    "show_chat",
]
