"""What is missing: a pure function of the runs asked for and the records held."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Failure
from rlexp.records.run import RunRecord, State

FURTHER_ATTEMPTS = 2
"""How often a run is tried again after the machine failed it."""


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
    """Sort the runs asked for; `records` is keyed by run id, `retry` tries final failures again.

    What the machine failed gets two further attempts, what was interrupted or lost by a dead
    command is simply continued, and what the configuration failed stays failed.
    """
    missing, done, failed = [], [], []
    for spec in specs:
        record = records.get(spec.id)
        if record is None or may_run(record, retry=retry):
            missing.append(spec)
        elif record.state is State.FAILED:
            failed.append(spec)
        else:
            done.append(spec)
    return Plan(tuple(missing), tuple(done), tuple(failed))


def may_run(record: RunRecord, *, retry: bool = False) -> bool:
    """Whether the run is to be attempted (again)."""
    match record.state:
        case State.COMPLETED | State.PRUNED:
            return False
        case State.FAILED if record.failure is Failure.DISK:
            return True
        case State.FAILED:
            by_machine = record.failure is not None and record.failure.of_the_machine
            return retry or (by_machine and record.machine_failures <= FURTHER_ATTEMPTS)
        case _:
            return True
