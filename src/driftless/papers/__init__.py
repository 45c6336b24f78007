"""What the papers printed, as data, and the same numbers derived by driftless."""
