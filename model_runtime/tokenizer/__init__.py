"""Conversion between text and token ids.

tokenizer = load_tokenizer(model_dir)
tokenizer.encode("untrusted text")          # never gives a control token
tokenizer.special.im_end                    # ids of control tokens by name
"""

from model_runtime.tokenizer.special import SpecialTokens
from model_runtime.tokenizer.tokenizer import TokenBudget, Tokenizer, load_tokenizer

__all__ = ["SpecialTokens", "TokenBudget", "Tokenizer", "load_tokenizer"]
