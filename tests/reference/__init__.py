"""Reference implementations of the federated algorithms in plain NumPy, written from the equations alone.

They run on linear regression with full-batch local gradients, share no code with the library, and say nothing about
speed: one loop per sum, one line per equation. Start at ``algorithms.REFERENCES``.
"""
