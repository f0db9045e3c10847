"""The source of a loop's runs: a fixed list, or a search that proposes runs as it goes on."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, StopRequest
from rlexp.records.run import RunRecord, State


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned runs, sorted into missing, done and finally failed ones."""

    missing: tuple[RunSpec, ...]
    done: tuple[RunSpec, ...]
    failed: tuple[RunSpec, ...]

    @property
    def steps(self) -> int:
        """Environment steps of the missing runs."""
        return sum(spec.budget["steps"] for spec in self.missing)


def make_plan(
    specs: Iterable[RunSpec],
    records: Mapping[str, RunRecord],
    *,
    retry: bool = False,
) -> Plan:
    """Sort runs by their records, keyed by run id; with `retry`, final failures are missing."""
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
    """Supplies the runs of a loop one by one, and receives their results."""

    @property
    def waiting(self) -> int:
        """The number of further runs that are known so far."""
        ...

    def take(self) -> RunSpec | None:
        """The next run to start; None if there is none until another run has ended."""
        ...

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Receive the evaluations so far of a run in progress."""
        ...

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """The request to end a run early; None if the run should go on."""
        ...

    def ended(self, record: RunRecord) -> None:
        """Receive the record of a run that has ended for good."""
        ...


@dataclass(slots=True)
class RunList:
    """A source with a fixed list of runs."""

    missing: deque[RunSpec]

    @property
    def waiting(self) -> int:
        """The number of runs that are left."""
        return len(self.missing)

    def take(self) -> RunSpec | None:
        """The next run."""
        return self.missing.popleft() if self.missing else None

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Do nothing: the list does not depend on results."""

    def stopping(self, spec: RunSpec) -> None:
        """Return None: no run ends early."""

    def ended(self, record: RunRecord) -> None:
        """Do nothing: the list does not depend on results."""
