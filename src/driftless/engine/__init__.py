"""Runs any `Algorithm`, knows none by name."""
