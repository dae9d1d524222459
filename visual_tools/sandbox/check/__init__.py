"""Checks that verify the isolation of the sandbox on this machine; `cua doctor --sandbox` runs them."""
