"""MoonViT-3D and the projector."""
