"""nano-K2.5: the small model that is trained here and runs in this process."""
