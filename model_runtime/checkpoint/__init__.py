"""Release folders: safetensors shards, INT4 packing, tiny checkpoints for tests."""
