"""The same algorithm on real machines: a federation on Flower. Needs `pip install driftless[deploy]`."""
