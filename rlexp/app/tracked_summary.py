"""How an experiment stands, as trackers are told."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlexp.app.feed import Feed
from rlexp.app.reading.leading import Leading
from rlexp.app.reading.summary import Cell, read_entries, summarise
from rlexp.app.reading.survey import DAMAGE
from rlexp.app.tracking.snapshot import Labels, tracked_run
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger import sum_of_file
from rlexp.store.runs import read_experiment, read_run
from rlexp.store.sweeps import read_selection, read_trials
from rlexp.trackers import Aggregate, Summary, TrackedExperiment, TrackedRun, Winner
from rlexp.trackers.interval_figure import draw_intervals

LARGEST_REPORT = 50_000_000
"""Bytes of a report's file that is still uploaded."""


def read_summary(
    paths: ExperimentPaths, experiment: TrackedExperiment, labels: Labels, leading: Leading
) -> tuple[Summary, Mapping[str, Any]]:
    """The summary, and JSON values that differ where it does.

    Args:
        paths: The experiment's folder.
        experiment: As the service sees it.
        labels: Of its runs.
        leading: The aggregate, and how its interval is made.

    Raises:
        RecordError: The experiment is damaged.
    """
    asked = read_experiment(paths)
    aggregates = list(_aggregates(paths, asked, leading))
    winner = _winner(paths, experiment, labels, asked)
    files = _report(experiment.project / "reports" / experiment.name)
    summary = Summary(
        aggregates=aggregates,
        groups=_groups(experiment, asked, aggregates),
        winner=winner,
        figures={"intervals": draw_intervals(aggregates)} if aggregates else {},
        files=files,
    )
    said = {
        "aggregates": [asdict(a) for a in aggregates],
        "groups": list(summary.groups),
        "winner": None if winner is None else [winner.trial, winner.run and winner.run.id],
        "files": {name: sum_of_file(path) for name, path in files.items()},
    }
    return summary, said


def _aggregates(
    paths: ExperimentPaths, asked: Experiment, leading: Leading
) -> Iterator[Aggregate]:
    """Of the test runs, or of tuning runs where a workspace has only these; never of a search."""
    phases = (Phase.TEST,) if asked.sweep else (Phase.TEST, Phase.TUNING)
    for phase in phases:
        entries = read_entries(paths, asked, phase)
        if any(stored.record.state is not State.PLANNED for _, stored in entries):
            told = summarise(paths, asked, phase, entries, leading)
            yield from (_aggregate(cell, str(phase)) for cell in told.cells)


def _aggregate(cell: Cell, phase: str) -> Aggregate:
    return Aggregate(
        label=cell.label,
        task=cell.task,
        phase=phase,
        planned=cell.planned,
        n=cell.n,
        failed=cell.failed,
        missing=cell.missing,
        score_rule=cell.score,
        scores=cell.scores,
        metric=cell.metric,
        title=cell.title,
        estimate=cell.estimate,
    )


def _groups(
    experiment: TrackedExperiment, asked: Experiment, aggregates: list[Aggregate]
) -> list[str]:
    own = [experiment.name] if asked.sweep else []
    return list(dict.fromkeys([*own, *(a.label for a in aggregates)]))


def _winner(
    paths: ExperimentPaths, experiment: TrackedExperiment, labels: Labels, asked: Experiment
) -> Winner | None:
    selection = read_selection(paths) if asked.sweep else None
    if selection is None:
        return None
    trial = next(t for t in read_trials(paths) if t.number == selection.winner)
    run = _of_median_score(paths, experiment, labels, asked)
    return Winner(trial=trial.number, parameters=trial.parameters, run=run)


def _of_median_score(
    paths: ExperimentPaths, experiment: TrackedExperiment, labels: Labels, asked: Experiment
) -> TrackedRun | None:
    """The winner's test run in the middle: the lower one of two, never the luckiest."""
    found: list[tuple[float, int, RunRecord]] = []
    winner = asked.configurations[0].fingerprint
    for _, spec in asked.specs(Phase.TEST):
        if spec.fingerprint != winner:
            continue
        try:
            record = read_run(paths.run(spec.name), spec).record
        except (RlexpError, *DAMAGE):
            continue
        if record.score is not None:
            found.append((record.score, spec.seed, record))
    if not found:
        return None
    found.sort(key=lambda entry: entry[:2])
    record = found[(len(found) - 1) // 2][2]
    run = paths.run(record.spec.name)
    feed = Feed(run)
    feed.read(record.step)
    return tracked_run(experiment, feed, labels)


def _report(folder: Path) -> Mapping[str, Path]:
    """The files of the report that was written last, those that are links left out."""
    if not folder.is_dir() or folder.is_symlink():
        return {}
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST_REPORT
    }
