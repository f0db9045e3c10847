"""The outcome of an experiment, and its comparison with that of another experiment."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from studies import StudyFolder

from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, Evaluated, RunEnded
from rlexp.records.run import RunRecord, State
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_attempts, read_run
from rlexp.store.sweeps import read_trials

HOURS = ("core-hours", "run hours")
OMITTED = ("curves-time*", "continued*")
"""Tables of a report that depend on wall-clock time or attempts only."""
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "cost*": ("attempts", "environment steps", *HOURS, "longest run, seconds"),
    "phases*": ("environment steps", "share of the steps", *HOURS),
    "trials*": ("steps spent",),
    "history*": ("x",),
}
"""Columns of other tables that depend on wall-clock time, attempts or spent steps, which include
the steps of killed attempts and of runs that were about to be pruned."""
SPENT = re.compile(r"spent [^\"]* environment steps")
"""The spent steps in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that must not depend on what happened to the command.

    Attributes:
        question: The definition of the experiment.
        runs: Records by name of folder.
        trials: Of a sweep, as they were proposed.
        selection: Of a sweep: winner and finalists with their scores.
        report: Each table and figure of the report, without what depends on time and attempts.
    """

    question: Mapping[str, Any]
    runs: Mapping[str, RunRecord]
    trials: list[tuple[Mapping[str, Any], int, str | None]]
    selection: Mapping[str, Any] | None
    report: Mapping[str, str]


def outcome(study: StudyFolder, name: str) -> Outcome:
    """The outcome of a finished experiment."""
    paths = ExperimentPaths(study.folder / "runs" / name)
    runs = {run.folder.name: read_run(run).record for run in paths.runs()}
    return Outcome(
        question=read_json(paths.definition),
        runs=runs,
        trials=[(t.parameters, t.steps, t.refused) for t in read_trials(paths)],
        selection=read_json(paths.selection) if paths.selection.exists() else None,
        report=report(study, name),
    )


def report(study: StudyFolder, name: str) -> dict[str, str]:
    """Every table and figure of a report by file name, without what may differ."""
    code, output = study.give("report", name, "--format", "csv", "--set", "repetitions=200")
    assert code == 0, output
    files = sorted((study.folder / "reports" / name).glob("*.csv"))
    compared = [path for path in files if not any(fnmatch(path.name, p) for p in OMITTED)]
    return {path.name: comparable_part(path.name, path.read_bytes().decode()) for path in compared}


def comparable_part(name: str, text: str) -> str:
    """A table without the columns that may differ; any other file as it is."""
    text = SPENT.sub("spent", text)
    left_out = next(
        (columns for pattern, columns in LEFT_OUT.items() if fnmatch(name, pattern)), ()
    )
    if not left_out:
        return text
    rows = csv.DictReader(io.StringIO(text, newline=""))
    lines = [[value for key, value in row.items() if key not in left_out] for row in rows]
    return "\n".join(map(str, [rows.fieldnames, *lines]))


def check_same(expected: Outcome, actual: Outcome) -> None:
    """Compare the outcome of an experiment with that of the control."""
    for name in ("question", "trials", "selection"):
        same(name, getattr(expected, name), getattr(actual, name))
    same("runs", list(expected.runs), list(actual.runs))
    for name, record in expected.runs.items():
        check_same_run(record, actual.runs[name])
    same("tables", list(expected.report), list(actual.report))
    for name, text in expected.report.items():
        same(name, text, actual.report[name])


def check_same_run(expected: RunRecord, actual: RunRecord) -> None:
    """Compare two records of a run.

    A tuning run that its search prunes may complete before it gets the request: then only the
    evaluations that both records hold must be equal.
    """
    name = expected.spec.name
    both_completed = expected.state is State.COMPLETED is actual.state
    pruned = State.PRUNED in {expected.state, actual.state}
    if not (pruned and expected.spec.phase is Phase.TUNING):
        same(f"{name}: state", (State.COMPLETED, State.COMPLETED), (expected.state, actual.state))
    for item, other in zip(expected.evaluations, actual.evaluations, strict=both_completed):
        same(f"{name}: evaluation", without_times(item), without_times(other))
    if both_completed:
        assert expected.final is not None
        assert actual.final is not None
        same(
            f"{name}: final evaluation", without_times(expected.final), without_times(actual.final)
        )
        same(f"{name}: score", expected.score, actual.score)
        same(f"{name}: weights", expected.weights, actual.weights)


def same(what: str, expected: object, actual: object) -> None:
    """Check that two values are equal, and say which ones differ."""
    assert expected == actual, f"{what}: {expected!r:.2000} became {actual!r:.2000}"


def without_times(evaluation: Evaluated) -> tuple[int, tuple[float, ...], tuple[int, ...]]:
    """An evaluation without its times."""
    return evaluation.step, evaluation.returns, evaluation.lengths


def check_done_once(study: StudyFolder, name: str) -> None:
    """Check that no run has two folders, and that only its last attempt ended it for good."""
    paths = ExperimentPaths(study.folder / "runs" / name)
    ids = [read_json(run.spec)["id"] for run in paths.runs()]
    same("runs of one identity", len(set(ids)), len(ids))
    for run in paths.runs():
        attempts = read_attempts(run)
        ended = [any(map(is_over, attempt.events)) for attempt in attempts]
        same(run.folder.name, [*[False] * (len(attempts) - 1), True], ended)
        unreadable = sum(attempt.torn + attempt.quarantined for attempt in attempts)
        same(f"{run.folder.name}: unreadable lines", 0, unreadable)


def is_over(event: object) -> bool:
    """Whether an event ends a run for good."""
    ends = {Ending.COMPLETED, Ending.PRUNED}
    return isinstance(event, RunEnded) and event.ending in ends


def continuations(study: StudyFolder, name: str) -> Iterator[int]:
    """The steps at which attempts continued from a checkpoint."""
    for event in study.events(name, "continued"):
        yield event["step"]
