"""Keeps PyTorch's compiler out of processes that compile nothing.

PyTorch imports `torch._dynamo` before the first step of every optimiser, although only `torch.compile`
needs it. This import takes about as long as that of PyTorch itself. `defer` puts a module in its place
which has the two functions that optimisers call. Outside a compilation, these two functions change
nothing. Any other use imports the real module, which then takes its place everywhere.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"
MARK = "__dynamo_disable"
"""The attribute in which PyTorch keeps what `disable` returned for a function."""

KEPT = frozenset({"graph_break", "disable", "_functions", "_load", "__class__"})
"""Attributes of the module that stands for the real one."""


class DeferredDynamo(ModuleType):
    """Stands for `torch._dynamo` until something needs the compiler."""

    def __init__(self) -> None:
        super().__init__(NAME)
        # An attribute of the module would hide that of the real one.
        object.__setattr__(self, "_functions", [])

    def graph_break(self, msg: str = "") -> None:
        """Do nothing, as the real function does outside a compilation."""

    def disable(self, fn: Callable[..., Any], *_: object, **__: object) -> Callable[..., Any]:
        """Return the function itself: there is no compilation that could include it."""
        self._functions.append(fn)
        return fn

    def __getattribute__(self, name: str) -> Any:
        """Look up an attribute; all but the two functions are those of the real module."""
        if name in KEPT:
            return object.__getattribute__(self, name)
        # The import system asks for these of every module that it finds in `sys.modules`.
        if name in {"__name__", "__spec__"} and sys.modules.get(NAME) is self:
            return object.__getattribute__(self, name)
        return getattr(self._load(), name)

    def _load(self) -> ModuleType:
        """The real module, which takes the place of this one."""
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME]
            # PyTorch asks the real `disable` at the next call of these functions.
            for fn in self._functions:
                if hasattr(fn, MARK):
                    delattr(fn, MARK)
        return importlib.import_module(NAME)


def defer() -> None:
    """Put off the import of `torch._dynamo` until something needs it, and import all else.

    Does nothing where the module is imported already.
    """
    import torch

    if NAME not in sys.modules:
        sys.modules[NAME] = DeferredDynamo()
    # One step imports what this version of PyTorch needs for it, so that forks share it. If that is
    # the compiler, it is imported here once, and not in every run.
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.zeros(1)
    optimiser = torch.optim.Adam([weight])
    optimiser.step()
    optimiser.zero_grad()
    torch.optim.Adam([weight]).load_state_dict(optimiser.state_dict())
