"""Watching the operations of torch, and counting the floating-point operations among them."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class DispatchMode(TorchDispatchMode):
    """A mode that does not load torch's compiler at its first operation, which takes more than a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class FlopCount(DispatchMode):
    """Counts matrix products, convolutions and attention by torch's own formulas; a multiply-add is 2."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if (formula := flop_registry.get(func.overloadpacket)) is not None:
            self.total += formula(*args, **kwargs, out_val=result)
        return result
