"""WideSearch on generated corpora: pages made from a known table, tasks to collect it, and the scorer."""
