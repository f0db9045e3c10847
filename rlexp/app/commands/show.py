"""`rlexp show`: an experiment or a run, its configuration, or where it comes from."""

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from os import environ
from typing import Any

from rlexp.app.commands.status import sweep_lines
from rlexp.app.final_measures import describe_measures, tell_measures
from rlexp.app.history import describe_attempts, describe_checkpoints, tell_attempts
from rlexp.app.imported import imported_lines, source_in_words
from rlexp.app.leading import leading_aggregate
from rlexp.app.summary import describe_run, summarise
from rlexp.app.survey import configuration_of, read_now, survey
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord
from rlexp.reports.sentences import counted
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_attempts, read_spec
from rlexp.store.secrets import mask_all, secret_values
from rlexp.text import SCORES, duration, moment, outline, size

COLUMNS = (
    *("attempt", "started", "began", "state", "failure", "step", "seconds", "checkpoints"),
    *("host", "reason"),
)
"""Of the table of attempts."""
OPTIONAL = {"failure", "checkpoints", "reason"}
"""Those of them that are left out where they are empty."""
LONGEST = 40
"""Evaluations that are printed; all of them are in the JSON."""


class Part(StrEnum):
    """What to show of an experiment or a run."""

    RESULT = "result"
    CONFIG = "config"
    PROVENANCE = "provenance"


def show(target: str, part: Part, workspace: Workspace, console: Console) -> int:
    """Show an experiment or a run; returns the exit code.

    Raises:
        RlexpError: There is no such experiment or run, or what is asked for is damaged.
    """
    match workspace.find(target), part:
        case ExperimentPaths() as paths, Part.RESULT:
            _show_experiment(paths, workspace, console)
        case ExperimentPaths() as paths, Part.CONFIG:
            _show_plain(read_json(paths.definition), console)
        case ExperimentPaths() as paths, Part.PROVENANCE:
            _show_plain(_newest_provenance(paths), console)
        case RunPaths() as run, Part.RESULT:
            _show_run(run, console)
        case RunPaths() as run, Part.CONFIG:
            _show_plain(read_spec(run).plain(), console)
        case RunPaths() as run, _:
            _show_plain(_provenance(run), console)
    return 0


def _show_experiment(paths: ExperimentPaths, workspace: Workspace, console: Console) -> None:
    found = survey(paths, brief=True)
    if found.experiment is None:
        raise RecordError(f"{found.problem}; 'rlexp ls {paths.name}' lists its runs")
    # Of a sweep, trials and finalists are many and each has few runs: `ls` lists them.
    shown = found.phases if found.experiment.sweep is None else (Phase.TEST,)
    leading = leading_aggregate(workspace.folder, workspace.allowed)
    summaries = [
        summarise(paths, found.experiment, phase, found.entries(phase), leading) for phase in shown
    ]
    if console.as_json:
        plain = {"experiment": paths.name, "folder": str(paths.folder)}
        console.json({**plain, "phases": summaries, "problems": found.problems})
        return
    for line in () if found.experiment.sweep is None else sweep_lines(found, workspace):
        console.line(line)
    for line in imported_lines(found.experiment):
        console.line(line)
    for summary in summaries:
        # A sweep that has not chosen yet has no test runs to tell of.
        if summary["runs"] or found.experiment.sweep is None:
            console.summary(summary)
    for problem in found.problems:
        console.line(f"Damaged: {problem}")
    console.line(f"To see every run: {shlex.join(['rlexp', 'ls', paths.name])}")


def _show_plain(plain: Any, console: Console) -> None:
    masked = mask_all(plain, secret_values(environ))
    if console.as_json:
        console.json(masked)
    else:
        console.text(outline(masked))


def _provenance(run: RunPaths) -> dict[str, Any]:
    """Where the last attempt comes from, its packages last."""
    attempts = run.attempts()
    if not attempts:
        raise RecordError(f"run {run.folder.name} was never attempted, so it comes from nowhere")
    plain = read_json(attempts[-1].provenance)
    packages = {"packages": plain.pop("packages", {})}
    patch = {"patch": str(attempts[-1].patch)} if attempts[-1].patch.exists() else {}
    return {"run": run.folder.name, "attempt": attempts[-1].number, **plain, **patch, **packages}


def _newest_provenance(paths: ExperimentPaths) -> dict[str, Any]:
    stored = [
        f.stored for f in survey(paths, brief=True).runs if f.stored and f.stored.record.started
    ]
    if not stored:
        raise RecordError(f"no run of experiment {paths.name} was attempted yet")
    newest = max(stored, key=lambda s: s.record.started or 0.0)
    return _provenance(newest.paths)


def _show_run(run: RunPaths, console: Console) -> None:
    stored = read_now(run)
    attempts = read_attempts(run)
    configuration = configuration_of(run, stored.record.spec)
    value = {
        "experiment": run.folder.parent.name,
        **describe_run(configuration, stored),
        "phase": str(stored.record.spec.phase),
        "score_is": stored.record.spec.budget["score"],
        "imported": source_in_words(stored.record.spec),
        "weights": stored.record.weights,
        "evaluations": _evaluations(stored.record),
        "measures": describe_measures(stored.record),
        "history": describe_attempts(stored, attempts),
        "checkpoints": describe_checkpoints(stored.record, attempts),
        "files": _files(run),
        "folder": str(run.folder),
    }
    if console.as_json:
        console.json(value)
        return
    _head(value, console)
    _tables(value, console)
    name = f"{value['experiment']}/{value['run']}"
    console.line()
    console.line(f"Records: {value['folder']}")
    if value["imported"]:
        told = shlex.join(["rlexp", "show", name, "--provenance"])
        console.line(f"To see where it comes from: {told}")
    elif attempts:
        console.line(f"To see what it printed: {shlex.join(['rlexp', 'logs', name])}")


def _head(value: dict[str, Any], console: Console) -> None:
    console.line(f"{value['experiment']}/{value['run']}")
    console.line(
        f"  {value['label']} on {value['task']}, {value['phase']} phase, seed {value['seed']}"
    )
    if value["imported"]:
        console.line(f"  {value['imported']}")
    failure = f" ({value['failure']})" if value["failure"] else ""
    reason = f": {value['reason']}" if value["reason"] else ""
    console.line(f"  {value['state']}{failure}{reason}")
    if value["score"] is not None:
        console.line(f"  score {value['score']:,.2f}, {SCORES[value['score_is']]}")
    taken = value["seconds_spent"]
    seconds = f" in {duration(taken)}" if value["seconds"] is not None else ""
    several = f" in {value['attempts']} attempts" if value["attempts"] > 1 and seconds else ""
    console.line(f"  {value['step']:,} of {value['steps']:,} environment steps{seconds}{several}")
    if value["checkpoints"]:
        console.line(f"  {_cost(value['checkpoints'])}")
    if value["weights"]:
        console.line(f"  sha256 of its weights {value['weights']}")
    if value["unreadable_lines"]:
        console.line(f"  {value['unreadable_lines']} lines of its journal cannot be read")


def _cost(checkpoints: Mapping[str, Any]) -> str:
    """What checkpoints cost (`4 checkpoints, 0.3 s and 1.2 MB in all, 0.1 % of the time`)."""
    share = checkpoints["share"]
    of = "" if share is None else f", {100 * share:.1f} % of the time"
    return (
        f"{counted(checkpoints['count'], 'checkpoint')}, {checkpoints['seconds']:.1f} s and "
        f"{size(checkpoints['bytes'])} in all{of}"
    )


def _tables(value: dict[str, Any], console: Console) -> None:
    evaluations: Sequence[dict[str, Any]] = value["evaluations"]
    if evaluations:
        console.line()
        console.line("evaluations, by return of their episodes")
        if len(evaluations) > LONGEST:
            console.line(f"  the last {LONGEST} of {len(evaluations)}; --json shows all")
        console.table(evaluations[-LONGEST:], ("step", "mean", "min", "max", "episodes", "policy"))
    tell_measures(value["measures"], console)
    if value["history"]:
        console.line()
        rows = [{**row, "started": moment(row["started"])} for row in value["history"]]
        kept = [c for c in COLUMNS if c not in OPTIONAL or any(r[c] for r in rows)]
        console.table(rows, kept)
        for line in tell_attempts(value["history"]):
            console.line(line)
    console.line()
    console.table([{**f, "bytes": size(f["bytes"])} for f in value["files"]], ("file", "bytes"))


def _evaluations(record: RunRecord) -> list[dict[str, Any]]:
    events = [*record.evaluations, *([record.final] if record.final else [])]
    return [_evaluation(event) for event in events]


def _evaluation(event: Evaluated) -> dict[str, Any]:
    return {
        "step": event.step,
        "mean": event.mean,
        "min": min(event.returns),
        "max": max(event.returns),
        "episodes": len(event.returns),
        "policy": "final" if event.final else "in training",
    }


def _files(run: RunPaths) -> list[dict[str, Any]]:
    """Files of the run that are worth knowing; links are not followed."""
    paths = sorted(p for p in run.folder.rglob("[!.]*") if p.is_symlink() or p.is_file())
    return [
        {"file": str(p.relative_to(run.folder)), "bytes": p.lstat().st_size}
        for p in paths
        if p.name != "progress.bin"
    ]
