"""Where the runs of a loop come from: a list, or a search that makes them up as it goes on."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, StopRequest
from rlexp.records.run import RunRecord


class Source(Protocol):
    """Where the runs come from, and who is told how they go. It is asked again and again."""

    @property
    def waiting(self) -> int:
        """How many runs are known to follow."""
        ...

    def take(self) -> RunSpec | None:
        """The next run to start; nothing where there is none, or none until another has ended."""
        ...

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """A run goes on, and was evaluated so far at these steps."""
        ...

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """Why a run is to end early, if it is."""
        ...

    def ended(self, record: RunRecord) -> None:
        """A run is over for good."""
        ...


@dataclass(slots=True)
class Listed:
    """Runs that are known from the start."""

    missing: deque[RunSpec]

    @property
    def waiting(self) -> int:
        """How many are left."""
        return len(self.missing)

    def take(self) -> RunSpec | None:
        """The next one."""
        return self.missing.popleft() if self.missing else None

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Nothing follows from it."""

    def stopping(self, spec: RunSpec) -> None:
        """No run ends early."""

    def ended(self, record: RunRecord) -> None:
        """Nothing follows from it."""
