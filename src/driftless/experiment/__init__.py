"""Experiments: configuration, runs and comparisons, on top of the engine."""
