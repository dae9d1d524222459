"""The zygote: a process with all imports loaded that forks isolated kernels on request."""
