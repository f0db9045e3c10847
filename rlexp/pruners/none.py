"""No pruning: every trial is run to its end."""

from dataclasses import dataclass

from rlexp.pruners import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Gives up no trial."""

    def prunes(self, point: Point) -> str | None:
        """Nothing: the trial goes on."""
        del point
        return None
