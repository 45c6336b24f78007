"""An algorithm around another one, `inner`: everything that it does not change is the inner algorithm's.

Its server state, message and upload are NamedTuples with a field `inner`, which holds the inner algorithm's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar

from driftless.algorithm import Algorithm
from driftless.errors import InputError


def of_inner(attribute: str) -> Any:
    """A property that reads an attribute of `inner`. Any: for the type checker, it stands for a class attribute."""
    return property(attrgetter(f"inner.{attribute}"))


@dataclass(frozen=True)
class Wrapper(Algorithm):
    """Subclasses write `init_server`, `broadcast`, `upload` and `update`."""

    inner: Algorithm

    outermost: ClassVar[bool] = False
    """Whether no other wrapper may be around it."""

    weighting = of_inner("weighting")
    uniform = of_inner("uniform")
    public = of_inner("public")
    needs_clients = of_inner("needs_clients")
    anchor_gradient = of_inner("anchor_gradient")
    full_gradient = of_inner("full_gradient")
    local_must_be = of_inner("local_must_be")
    server_lr = of_inner("server_lr")

    def __post_init__(self):
        if not isinstance(self.inner, Algorithm):
            wrapper = type(self).__name__
            raise InputError(f"inner of {wrapper} must be an algorithm such as FedAvg(), got {self.inner!r}.")
        if getattr(self.inner, "outermost", False):
            wrapper, inner = type(self).__name__, type(self.inner).__name__
            raise InputError(
                f"{wrapper} cannot be around {inner}, which must be the outermost: {inner}({wrapper}(...))."
            )

    def for_run(self, plan):
        return replace(self, inner=self.inner.for_run(plan))

    def notices(self):
        return self.inner.notices()

    def init_client(self, x):
        return self.inner.init_client(x)

    def init_local(self, msg, client, r):
        return self.inner.init_local(msg.inner, client, r)

    def direction(self, step, local, msg, client, r):
        return self.inner.direction(step, local, msg.inner, client, r)

    def inference(self, server):
        return self.inner.inference(server.inner)

    def diagnostics(self, server, mean):
        return self.inner.diagnostics(server.inner, mean.inner)

    def with_server_lr(self, server_lr):
        return replace(self, inner=self.inner.with_server_lr(server_lr))
