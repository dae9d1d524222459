"""Training on the modules that serve: differentiable operators, losses, Muon, and export in the release's layout."""
