"""Model parallelism over several processes."""
