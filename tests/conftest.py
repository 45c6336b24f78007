from __future__ import annotations

from hypothesis import settings

# A test that is slow because the machine is busy has not failed.
settings.register_profile("driftless", deadline=None)
settings.load_profile("driftless")
