"""The start of the first run of each group, which is when the group itself has started."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rlexp.app.reading.experiment_scan import READ_ERRORS
from rlexp.errors import RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import RunStarted
from rlexp.store.files import open_file
from rlexp.store.journal import events_of
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_spec


@dataclass(slots=True)
class GroupStarts:
    """Finds the first start of a group's runs; reads the folder again for a new group only.

    Attributes:
        paths: The experiment.
        group_of: The group of a run.
    """

    paths: ExperimentPaths
    group_of: Callable[[RunSpec], str]
    _starts: dict[str, float] = field(default_factory=dict)

    def of(self, group: str, started: float) -> float:
        """The start of a group's first run, in seconds since 1970.

        Args:
            group: The group.
            started: The start of one of its runs; it is the answer if no run is earlier.
        """
        if group not in self._starts:
            self._read()
        return self._starts.setdefault(group, started)

    def _read(self) -> None:
        for run in self.paths.runs():
            try:
                start = _first_start(run)
                group = None if start is None else self.group_of(read_spec(run))
            except (RlexpError, *READ_ERRORS):
                continue
            if start is not None and group is not None:
                self._starts[group] = min(start, self._starts.get(group, start))


def _first_start(run: RunPaths) -> float | None:
    """The start of a run's first attempt, without reading the rest of its journal."""
    attempts = run.attempts()
    if not attempts:
        return None
    with open_file(attempts[0].journal) as file:
        first = list(events_of([file.readline()]))
    return first[0].time if first and isinstance(first[0], RunStarted) else None
