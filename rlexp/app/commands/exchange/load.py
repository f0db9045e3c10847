"""`rlexp.load`: reads an experiment's records and scores as NumPy arrays, for notebooks."""

from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlexp.app.data_frames import data_frame
from rlexp.app.reading.experiment_scan import ScannedRun, survey
from rlexp.app.reading.headline_aggregate import read_headline_aggregate
from rlexp.app.reading.run_rows import RUN_COLUMNS, run_rows
from rlexp.app.reading.summary import RunRow, describe_run, worst_scores
from rlexp.app.results import Displayed
from rlexp.errors import ProtocolError, RecordError, did_you_mean
from rlexp.metrics.estimate import Estimate
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.measures import RETURN
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import ExperimentPaths, Layout

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT = ("run", "label", "task", "phase", "state")


@dataclass(frozen=True, slots=True)
class Records(Displayed):
    """The records of an experiment at the time of loading.

    Attributes:
        name: The name of the experiment.
        table: A structured array with one row per planned run, with or without a score: `run`,
            `label`, `task`, `phase`, `seed`, `state`, `score` (NaN if the run has none), `step`.
        records: The records of the same runs, in the same order.
        problems: Descriptions of records that could not be read.
        experiment: The definition of the experiment.
        folder: The folder of the experiment.
        runs: Summaries of the same runs, in the same order.
    """

    name: str
    table: NDArray[np.void]
    records: tuple[RunRecord, ...] = field(repr=False)
    problems: tuple[str, ...]
    experiment: Experiment = field(repr=False)
    folder: Path = field(repr=False)
    runs: tuple[RunRow, ...] = field(repr=False)

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each planned run of all phases, with or without a score.

        Raises:
            ConfigError: pandas is not installed.
        """
        phases = (str(record.spec.phase) for record in self.records)
        placed = ((self.name, phase, run) for phase, run in zip(phases, self.runs, strict=True))
        return data_frame(run_rows(placed), RUN_COLUMNS)

    def estimate(
        self,
        label: str | None = None,
        task: str | None = None,
        phase: str = "test",
    ) -> Estimate | None:
        """The aggregate of one configuration, equal to that of `rlexp show` and of reports.

        Args:
            label: The label; required if the experiment has several.
            task: The task; required if the experiment has several.
            phase: `test`, `selection` or `tuning`.

        Returns:
            The leading metric of `conf/report.yaml` (by default the interquartile mean) of the
            scores, with its interval; None if no run has a score.

        Raises:
            ProtocolError: No configuration matches, or several do.
            ConfigError: The workspace's `conf/report.yaml` is not valid.
        """
        rows = self._rows(label, task, phase)
        if not rows:
            return None
        named = [str(self.table[column][rows[0]]) for column in ("label", "task")]
        configuration = next(
            c for c in self.experiment.of_phase(Phase(phase)) if [c.label, c.task] == named
        )
        records = [self.records[row] for row in rows]
        worst = worst_scores(configuration, self.experiment, sum(r.scoreless for r in records))
        scores = [r.score for r in records if r.score is not None]
        leading = read_headline_aggregate(self.folder.parent.parent)
        return leading.estimate([*scores, *worst], configuration.score_reference)

    def scores(
        self,
        label: str | None = None,
        task: str | None = None,
        phase: str = "test",
    ) -> NDArray[np.float64]:
        """Scores of the completed runs of one configuration, in order of their seeds, shape (n,).

        Args:
            label: The label; required if the experiment has several.
            task: The task; required if the experiment has several.
            phase: `test`, `selection` or `tuning`.

        Raises:
            ProtocolError: No configuration matches, or several do.
        """
        records = [self.records[row] for row in self._rows(label, task, phase)]
        return np.asarray([r.score for r in records if r.score is not None], dtype=np.float64)

    def measure(
        self,
        name: str,
        label: str | None = None,
        task: str | None = None,
        phase: str = "test",
    ) -> NDArray[np.float64]:
        """A measure of the completed runs of one configuration, in order of their seeds.

        Args:
            name: The name of the measure (`success`).
            label: The label; required if the experiment has several.
            task: The task; required if the experiment has several.
            phase: `test`, `selection` or `tuning`.

        Returns:
            The mean over the final episodes that report the measure, of shape (n,); NaN for a run
            without it.

        Raises:
            ProtocolError: No configuration matches, or several do, or no run has the measure.
        """
        records = [self.records[row] for row in self._rows(label, task, phase)]
        completed = [record for record in records if record.state is State.COMPLETED]
        names = sorted({reported for record in completed for reported in record.measures})
        _check_value(name, "measure", names)
        return np.asarray([r.measures.get(name, np.nan) for r in completed], dtype=np.float64)

    def curves(
        self,
        label: str | None = None,
        task: str | None = None,
        phase: str = "test",
        quantity: str = RETURN,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Means during training: steps of shape (evaluations,), means of (runs, evaluations).

        Every planned run has a row, in order of its seed; an evaluation that a run does not have
        is NaN. Failed runs keep the evaluations before their failure.

        Args:
            label: The label; required if the experiment has several.
            task: The task; required if the experiment has several.
            phase: `test`, `selection` or `tuning`.
            quantity: `return`, or the name of a measure.

        Raises:
            ProtocolError: No configuration matches, or several do.
        """
        records = [self.records[row] for row in self._rows(label, task, phase)]
        reached = sorted({e.step for record in records for e in record.evaluations})
        steps = np.asarray(reached, dtype=np.int64)
        returns = np.full((len(records), len(steps)), np.nan)
        for row, record in enumerate(records):
            for evaluation in record.evaluations:
                returns[row, np.searchsorted(steps, evaluation.step)] = evaluation.mean_of(
                    quantity
                )
        return steps, returns

    def _rows(self, label: str | None, task: str | None, phase: str) -> list[int]:
        selected = self.table["phase"] == _check_value(phase, "phase", [str(p) for p in Phase])
        for column, value in (("label", label), ("task", task)):
            existing = list(dict.fromkeys(self.table[column].tolist()))
            if value is not None:
                selected &= self.table[column] == _check_value(value, column, existing)
        cells = sorted(set(self.table[["label", "task"]][selected].tolist()))
        if len(cells) > 1:
            named = ", ".join(" on ".join(cell) for cell in cells)
            raise ProtocolError(
                f"{len(cells)} configurations match; name label and task of one: {named}"
            )
        return sorted(
            np.flatnonzero(selected).tolist(), key=lambda row: int(self.table["seed"][row])
        )


def load(folder: str | PathLike[str]) -> Records:
    """Read the experiment in `folder` (`runs/NAME`).

    Raises:
        RecordError: The folder holds no experiment, or its definition is damaged.
    """
    paths = ExperimentPaths(Path(folder).absolute())
    if not paths.folder.is_dir():
        names = [e.name for e in Layout(paths.folder.parent).experiments()]
        existing = f" (there are: {', '.join(names[:20])})" if names else ""
        raise RecordError(
            f"there is no experiment {folder}{did_you_mean(paths.name, names)}{existing}",
            code="unknown_experiment",
            key=str(folder),
            allowed=names,
        )
    scanned = survey(paths, catalogued=True)
    if scanned.experiment is None:
        raise RecordError(str(scanned.problem))
    runs = [f for f in scanned.runs if f.planned and f.stored]
    records = tuple(f.stored.record for f in runs if f.stored)
    return Records(
        name=paths.name,
        table=_table(runs),
        records=records,
        problems=tuple(scanned.problems),
        experiment=scanned.experiment,
        folder=paths.folder,
        runs=tuple(_described(f) for f in runs),
    )


def _described(run: ScannedRun) -> RunRow:
    assert run.stored is not None
    assert run.configuration is not None
    row = describe_run(run.configuration, run.stored)
    return replace(row, state="damaged") if run.damaged else row


def _table(runs: list[ScannedRun]) -> NDArray[np.void]:
    rows = [_row(f) for f in runs]
    # NumPy cuts strings at the width of their type, so each column is as wide as its longest text.
    widths = [max((len(str(row[i])) for row in rows), default=1) for i in range(len(TEXT))]
    kinds = [(name, f"U{width}") for name, width in zip(TEXT, widths, strict=True)]
    table = np.array(rows, dtype=[*kinds, ("seed", "i8"), ("score", "f8"), ("step", "i8")])
    # The table belongs to a frozen dataclass: an accidental change must raise an error.
    table.setflags(write=False)
    return table


def _row(run: ScannedRun) -> tuple[str, str, str, str, str, int, float, int]:
    assert run.stored is not None
    assert run.configuration is not None
    record, configuration = run.stored.record, run.configuration
    state = "damaged" if run.damaged else str(record.state)
    score = np.nan if record.score is None else record.score
    names = (run.name, configuration.label, configuration.task, str(record.spec.phase), state)
    return (*names, record.spec.seed, score, record.step)


def _check_value(value: str, what: str, allowed: list[str]) -> str:
    if value not in allowed:
        raise ProtocolError.unknown(f"there is no {what} {value!r}", value, allowed, key=what)
    return value
