"""MoonViT-3D and the projector.

tower = VisionTower(config.vision, comm=comm, device=device, dtype=dtype)
tower.load(source)
rows = tower([image, chunk])     # one (num_tokens, text_hidden_size) for each item
"""

from model_runtime.vision.tower import VisionTower

__all__ = ["VisionTower"]
