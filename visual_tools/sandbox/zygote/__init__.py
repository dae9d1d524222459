"""What runs on the far side: one process with everything imported that forks isolated kernels on request."""
