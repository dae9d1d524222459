"""Command line of `cua`. Each command parses arguments, calls one library function, and prints the result."""
