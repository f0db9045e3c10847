"""Where the runs of a loop come from: a list, or a search that makes them up as it goes on."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, StopRequest
from rlexp.records.run import RunRecord, State


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs asked for, sorted by what is to be done with them."""

    missing: tuple[RunSpec, ...]
    done: tuple[RunSpec, ...]
    failed: tuple[RunSpec, ...]

    @property
    def steps(self) -> int:
        """Environment steps that are still to be trained."""
        return sum(spec.budget["steps"] for spec in self.missing)


def make_plan(
    specs: Iterable[RunSpec],
    records: Mapping[str, RunRecord],
    *,
    retry: bool = False,
) -> Plan:
    """Sort the runs asked for; `records` is keyed by run id, `retry` tries final failures again."""
    missing, done, failed = [], [], []
    for spec in specs:
        record = records.get(spec.id)
        if record is None or record.may_run(retry=retry):
            missing.append(spec)
        elif record.state is State.FAILED:
            failed.append(spec)
        else:
            done.append(spec)
    return Plan(tuple(missing), tuple(done), tuple(failed))


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
