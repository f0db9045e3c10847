"""What an experiment came to, and whether another one came to the same."""

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
"""Tables of a report that tell of nothing but wall-clock or attempts."""
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "cost*": ("attempts", "environment steps", *HOURS, "longest run, seconds"),
    "phases*": ("environment steps", "share of the steps", *HOURS),
    "trials*": ("steps spent",),
    "history*": ("x",),
}
"""Columns of the others that tell of wall-clock, of attempts, or of the steps that were spent:
those of killed attempts, and of runs on their way to be pruned, are among them."""
SPENT = re.compile(r"spent [^\"]* environment steps")
"""The same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that must not depend on what happened to the command.

    Attributes:
        question: What was asked.
        runs: By name of folder.
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
    """What a finished experiment came to."""
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
    """Every table and figure of a report, by name of file, without what must differ."""
    code, output = study.give("report", name, "--format", "csv", "--set", "repetitions=200")
    assert code == 0, output
    results = sorted((study.folder / "reports" / name).glob("*.csv"))
    kept = [path for path in results if not any(fnmatch(path.name, p) for p in OMITTED)]
    return {path.name: lasting(path.name, path.read_bytes().decode()) for path in kept}


def lasting(name: str, text: str) -> str:
    """A table without the columns that are left out; any other as it is."""
    text = SPENT.sub("spent", text)
    out = next((columns for pattern, columns in LEFT_OUT.items() if fnmatch(name, pattern)), ())
    if not out:
        return text
    rows = csv.DictReader(io.StringIO(text, newline=""))
    lines = [[value for key, value in row.items() if key not in out] for row in rows]
    return "\n".join(map(str, [rows.fieldnames, *lines]))


def check_same(expected: Outcome, results: Outcome) -> None:
    """Compare what an experiment came to with what the control did."""
    for name in ("question", "trials", "selection"):
        same(name, getattr(expected, name), getattr(results, name))
    same("runs", list(expected.runs), list(results.runs))
    for name, record in expected.runs.items():
        check_same_run(record, results.runs[name])
    same("tables", list(expected.report), list(results.report))
    for name, text in expected.report.items():
        same(name, text, results.report[name])


def check_same_run(expected: RunRecord, results: RunRecord) -> None:
    """Compare two records of a run.

    A tuning run that its search gives up may come to its end before it hears of that: what both
    records hold must then be equal.
    """
    name = expected.spec.name
    both = expected.state is State.COMPLETED is results.state
    pruned = State.PRUNED in {expected.state, results.state}
    if not (pruned and expected.spec.phase is Phase.TUNING):
        same(f"{name}: state", (State.COMPLETED, State.COMPLETED), (expected.state, results.state))
    for item, other in zip(expected.evaluations, results.evaluations, strict=both):
        same(f"{name}: evaluation", shown(item), shown(other))
    if both:
        assert expected.final is not None
        assert results.final is not None
        same(f"{name}: final evaluation", shown(expected.final), shown(results.final))
        same(f"{name}: score", expected.score, results.score)
        same(f"{name}: weights", expected.weights, results.weights)


def same(what: str, expected: object, results: object) -> None:
    """Compare, and say what differs."""
    assert expected == results, f"{what}: {expected!r:.2000} became {results!r:.2000}"


def shown(evaluation: Evaluated) -> tuple[int, tuple[float, ...], tuple[int, ...]]:
    """An evaluation without what tells of time."""
    return evaluation.step, evaluation.returns, evaluation.lengths


def check_done_once(study: StudyFolder, name: str) -> None:
    """No run was done in two folders, or completed twice, and nothing came after it was over."""
    paths = ExperimentPaths(study.folder / "runs" / name)
    ids = [read_json(run.spec)["id"] for run in paths.runs()]
    same("runs of one identity", len(set(ids)), len(ids))
    for run in paths.runs():
        attempts = read_attempts(run)
        over = [any(map(is_over, attempt.events)) for attempt in attempts]
        same(run.folder.name, [*[False] * (len(attempts) - 1), True], over)
        unreadable = sum(attempt.torn + attempt.quarantined for attempt in attempts)
        same(f"{run.folder.name}: unreadable lines", 0, unreadable)


def is_over(event: object) -> bool:
    """Whether an event ends a run for good."""
    ends = {Ending.COMPLETED, Ending.PRUNED}
    return isinstance(event, RunEnded) and event.ending in ends


def continuations(study: StudyFolder, name: str) -> Iterator[int]:
    """The steps at which attempts went on from a checkpoint."""
    for event in study.events(name, "continued"):
        yield event["step"]
