"""Pictures and videos to the model's input sizes."""
