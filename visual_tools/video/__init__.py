"""Video functions: file information, exact frames, scenes, contact sheets, clips, frames prepared for the model."""
