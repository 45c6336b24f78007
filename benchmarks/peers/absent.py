"""Empty stand-ins for packages that a peer imports but does not need here.

FedLab and fluke import torchvision for data sets and ResNets, fluke also trackers. There is no CPU build of torchvision
for every torch, and none of this plays a part in a round.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from unittest.mock import MagicMock


def stand_in(*modules: str) -> None:
    """Put an empty module in the place of each one whose package is not installed."""
    missing = [name for name in modules if find_spec(name.partition(".")[0]) is None]  # before any is replaced
    for name in missing:
        sys.modules[name] = MagicMock()
