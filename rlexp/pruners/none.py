"""No pruning: every trial runs to its end."""

from dataclasses import dataclass
from typing import ClassVar

from rlexp.protocol.identity import Identity
from rlexp.pruners import PruningPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Ends no trial early."""

    identity: ClassVar = Identity("pruner", "none")

    def prunes(self, point: PruningPoint) -> str | None:
        """None: the trial continues."""
        del point
        return None
