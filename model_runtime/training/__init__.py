"""Training of the serving modules: differentiable operators, losses, Muon, and export in the release's layout."""
