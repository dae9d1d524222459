"""The `cua` command. Each command parses, calls one library function, and prints."""
