"""No pruning: every trial runs to its end."""

from dataclasses import dataclass
from typing import ClassVar

from rlexp.protocol.identity import Identity
from rlexp.pruners import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Ends no trial early."""

    identity: ClassVar = Identity("pruner", "none")

    def prunes(self, point: Point) -> str | None:
        """None: the trial continues."""
        del point
        return None
