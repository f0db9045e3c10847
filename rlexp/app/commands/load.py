"""`rlexp.load`: an experiment's records and scores as plain arrays, for notebooks."""

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlexp.app.reading.leading import leading_aggregate
from rlexp.app.reading.summary import worst_scores
from rlexp.app.reading.survey import Found, survey
from rlexp.errors import ProtocolError, RecordError, did_you_mean
from rlexp.metrics.estimate import Estimate
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord
from rlexp.store.layout import ExperimentPaths, Layout

TEXT = ("run", "label", "task", "phase", "state")


@dataclass(frozen=True, slots=True)
class Records:
    """An experiment as it stood when it was loaded.

    `table` is a structured array with a row for every run that was asked for, whether it has a
    score or not: `run`, `label`, `task`, `phase`, `seed`, `state`, `score` (NaN where there is
    none), `step`. `records` holds the same runs in the same order. `problems` names what could
    not be read.
    """

    name: str
    table: NDArray[np.void]
    records: tuple[RunRecord, ...] = field(repr=False)
    problems: tuple[str, ...]
    experiment: Experiment = field(repr=False)
    folder: Path = field(repr=False)

    def estimate(
        self,
        label: str | None = None,
        task: str | None = None,
        phase: str = "test",
    ) -> Estimate | None:
        """The aggregate of one configuration, as `rlexp show` and reports have it.

        Args:
            label: Needed where the experiment has several.
            task: Needed where the experiment has several.
            phase: `test`, `selection` or `tuning`.

        Returns:
            The leading metric of `conf/report.yaml` (the interquartile mean) of the scores, with
            its interval; nothing where no run has a score.

        Raises:
            ProtocolError: No configuration matches, or several do.
            ConfigError: The workspace's `conf/report.yaml` is wrong.
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
        leading = leading_aggregate(self.folder.parent.parent)
        return leading.estimate([*scores, *worst], configuration.reference)

    def scores(
        self,
        label: str | None = None,
        task: str | None = None,
        phase: str = "test",
    ) -> NDArray[np.float64]:
        """Scores of the completed runs of one configuration, in order of their seeds, shape (n,).

        Args:
            label: Needed where the experiment has several.
            task: Needed where the experiment has several.
            phase: `test`, `selection` or `tuning`.

        Raises:
            ProtocolError: No configuration matches, or several do.
        """
        records = [self.records[row] for row in self._rows(label, task, phase)]
        return np.asarray([r.score for r in records if r.score is not None], dtype=np.float64)

    def curves(
        self,
        label: str | None = None,
        task: str | None = None,
        phase: str = "test",
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Mean returns during training: steps of shape (evaluations,), returns (runs, evaluations).

        Every run that was asked for has a row, in order of its seed; what it did not evaluate is
        NaN. Failed runs keep what they had reached.

        Raises:
            ProtocolError: No configuration matches, or several do.
        """
        records = [self.records[row] for row in self._rows(label, task, phase)]
        reached = sorted({e.step for record in records for e in record.evaluations})
        steps = np.asarray(reached, dtype=np.int64)
        returns = np.full((len(records), len(steps)), np.nan)
        for row, record in enumerate(records):
            for evaluation in record.evaluations:
                returns[row, np.searchsorted(steps, evaluation.step)] = evaluation.mean
        return steps, returns

    def _rows(self, label: str | None, task: str | None, phase: str) -> list[int]:
        found = self.table["phase"] == _one_of(phase, "phase", [str(p) for p in Phase])
        for column, wanted in (("label", label), ("task", task)):
            known = list(dict.fromkeys(self.table[column].tolist()))
            if wanted is not None:
                found &= self.table[column] == _one_of(wanted, column, known)
        cells = sorted(set(self.table[["label", "task"]][found].tolist()))
        if len(cells) > 1:
            named = ", ".join(" on ".join(cell) for cell in cells)
            raise ProtocolError(f"{len(cells)} configurations match, say which one: {named}")
        return sorted(np.flatnonzero(found).tolist(), key=lambda row: int(self.table["seed"][row]))


def load(folder: str | PathLike[str]) -> Records:
    """Read the experiment in `folder` (`runs/NAME`).

    Raises:
        RecordError: There is none, or its definition is damaged.
    """
    paths = ExperimentPaths(Path(folder).absolute())
    if not paths.folder.is_dir():
        names = [e.name for e in Layout(paths.folder.parent).experiments()]
        known = f" (there are: {', '.join(names[:20])})" if names else ""
        raise RecordError(
            f"there is no experiment {folder}{did_you_mean(paths.name, names)}{known}",
            code="unknown_experiment",
            key=str(folder),
            allowed=names,
        )
    found = survey(paths)
    if found.experiment is None:
        raise RecordError(str(found.problem))
    runs = [f for f in found.runs if f.planned and f.stored]
    records = tuple(f.stored.record for f in runs if f.stored)
    return Records(
        name=paths.name,
        table=_table(runs),
        records=records,
        problems=tuple(found.problems),
        experiment=found.experiment,
        folder=paths.folder,
    )


def _table(runs: list[Found]) -> NDArray[np.void]:
    rows = [_row(f) for f in runs]
    widths = [max((len(str(row[i])) for row in rows), default=1) for i in range(len(TEXT))]
    kinds = [(name, f"U{width}") for name, width in zip(TEXT, widths, strict=True)]
    table = np.array(rows, dtype=[*kinds, ("seed", "i8"), ("score", "f8"), ("step", "i8")])
    table.setflags(write=False)
    return table


def _row(found: Found) -> tuple[str, str, str, str, str, int, float, int]:
    assert found.stored is not None
    assert found.configuration is not None
    record, configuration = found.stored.record, found.configuration
    state = "damaged" if found.damaged else str(record.state)
    score = np.nan if record.score is None else record.score
    names = (found.name, configuration.label, configuration.task, str(record.spec.phase), state)
    return (*names, record.spec.seed, score, record.step)


def _one_of(word: str, what: str, known: list[str]) -> str:
    if word not in known:
        raise ProtocolError.unknown(f"there is no {what} {word!r}", word, known, key=what)
    return word
