"""What every run has, whoever runs in it: switches, limits, a budget, a record, listeners, and one way to end."""
