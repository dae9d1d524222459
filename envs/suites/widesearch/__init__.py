"""WideSearch on generated corpora: pages with a known table behind them, tasks to collect it, and the scorer."""
