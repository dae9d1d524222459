"""nano-K2.5: small model, trained in this project, that runs in this process."""
