"""Language model in torch: rope, MLA, experts, decoder; the entry point is `load_model`."""

from model_runtime.model.batch import ForwardBatch
from model_runtime.model.k25 import K25Model, load_model

__all__ = ["ForwardBatch", "K25Model", "load_model"]
