"""Is the noise as large as it claims to be? Guess from the trained model which of 1000 canary clients took part.

python examples/privacy_audit.py
"""

import driftless
from driftless.privacy.audit import audit

digits = driftless.load("digits", clients=100, partition="iid", seed=0)
print("All clients, noise multiplier 8:", audit(digits, noise_multiplier=8.0))
print("A tenth of that noise:", audit(digits, noise_multiplier=0.8))
print("A fifth of the clients, 50 rounds:", audit(digits, noise_multiplier=2.0, probability=0.2, rounds=50))
