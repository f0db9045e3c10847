"""What is missing: a pure function of the runs asked for and the records held."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlexp.protocol.spec import RunSpec
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
