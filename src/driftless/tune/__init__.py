"""Searches for hyper-parameters on held-out clients."""
