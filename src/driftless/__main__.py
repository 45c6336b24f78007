"""`python -m driftless`."""

from driftless.cli import main

main()
