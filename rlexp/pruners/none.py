"""No pruning: every trial is run to its end."""

from dataclasses import dataclass
from typing import ClassVar

from rlexp.protocol.identity import Identity
from rlexp.pruners import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Gives up no trial."""

    identity: ClassVar = Identity("pruner", "none")

    def prunes(self, point: Point) -> str | None:
        """Nothing: the trial goes on."""
        del point
        return None
