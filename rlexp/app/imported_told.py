"""What an import did, in words and as JSON."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.app.imported_place import Written
from rlexp.console import Console
from rlexp.exchange.importers.settled import Settled, SettledRun
from rlexp.exchange.importers.study import ImportedStudy
from rlexp.protocol.experiment import Configuration
from rlexp.reports.sentences import counted, numbers, shortened
from rlexp.store.layout import ExperimentPaths

COLUMNS = ("label", "task", "runs", "completed", "seeds", "steps", "score", "returns")
MOST = 5
"""Things of one sort that are named."""


def show_import(
    read: ImportedStudy,
    settled: Settled,
    written: Written,
    dry: bool,
    paths: ExperimentPaths,
    console: Console,
) -> None:
    """Say which runs were read, what became of them, and what to do next."""
    name = settled.experiment.name
    following = shlex.join(["rlexp", "report", name])
    rows = [_row(c, own) for c, own in _groups(settled)]
    remarks = [*_remarks(settled.runs), *_left_out(read)]
    value = {
        "experiment": name,
        "kind": read.kind,
        "folder": str(paths.folder),
        "dry_run": dry,
        "new": list(written.new),
        "there": list(written.there),
        "groups": rows,
        "runs": [_run(run) for run in settled.runs],
        "left_out": list(read.left_out),
        "next": following,
    }
    if console.as_json:
        console.json(value)
        return
    console.line(_head(written, name, read.kind, dry))
    console.table([{**row, "seeds": numbers(row["seeds"])} for row in rows], COLUMNS)
    for line in remarks:
        console.line(line)
    if not dry:
        console.line(f"Records: {paths.folder}")
        console.line(f"To write the report: {following}")


def _head(written: Written, name: str, kind: str, dry: bool) -> str:
    there = len(written.there)
    if not written.new:
        return f"nothing new: experiment {name} holds these {counted(there, 'run')} already"
    more = f"; {there} of them were there before" if there else ""
    verb = "would import" if dry else "imported"
    return f"{verb} {counted(len(written.new), 'run')} from {kind} into experiment {name}{more}"


def _groups(settled: Settled) -> Iterator[tuple[Configuration, list[SettledRun]]]:
    for configuration in settled.experiment.configurations:
        if own := [run for run in settled.runs if run.configuration is configuration]:
            yield configuration, own


def _row(configuration: Configuration, runs: Sequence[SettledRun]) -> dict[str, Any]:
    return {
        "label": configuration.label,
        "task": configuration.task,
        "runs": len(runs),
        "completed": sum(run.trouble is None for run in runs),
        "seeds": sorted(run.spec.seed for run in runs),
        "steps": configuration.budget.steps,
        "score": configuration.budget.score,
        "returns": configuration.algorithm["imported"]["returns"],
    }


def _run(run: SettledRun) -> dict[str, Any]:
    return {
        "run": run.spec.name,
        "name": run.source.name,
        "label": run.configuration.label,
        "task": run.configuration.task,
        "seed": run.spec.seed,
        "seed_known": not run.numbered,
        "step": run.step,
        "points": len(run.points),
        "beyond_budget": run.cut,
        "state": str(run.trouble.ending) if run.trouble else "completed",
        "reason": run.trouble.reason if run.trouble else None,
    }


def _remarks(runs: Sequence[SettledRun]) -> Iterator[str]:
    """What the numbers do not say: seeds that were given here, runs without a score, what is cut."""
    returns = {run.source.returns for run in runs}
    if any(own.of_training for own in returns):
        yield (
            "Returns are of training: the policy changed while they were played. Reports say so; "
            "no evaluation of a fixed policy is among them."
        )
    if numbered := [run for run in runs if run.numbered]:
        told = shortened([f"{run.source.name} is {run.spec.seed}" for run in numbered], MOST)
        yield f"Seeds are not known, and were numbered: {told}."
    for run in [run for run in runs if run.trouble][:MOST]:
        assert run.trouble is not None
        yield f"No score: {run.source.name}: {run.trouble.ending}, {run.trouble.reason}."
    troubled = sum(run.trouble is not None for run in runs)
    if troubled > MOST:
        more = counted(troubled - MOST, "further run")
        yield f"No score: {more}; 'rlexp ls' lists them."
    if cut := [run for run in runs if run.cut]:
        points = sum(run.cut for run in cut)
        yield f"Left out: {points:,} points of {counted(len(cut), 'run')} beyond the budget."
    yield from _short(runs)
    yield from _unlike(runs)


def _short(runs: Sequence[SettledRun]) -> Iterator[str]:
    """How to compare runs that are not equally long."""
    for task in dict.fromkeys(run.configuration.task for run in runs):
        own = [run for run in runs if run.configuration.task == task]
        ended = [run.step for run in own if run.trouble and run.trouble.failure is None]
        if ended and min(ended) > 0:
            yield (
                f"On {task} runs are not equally long: --steps {min(ended)} under a name of its own "
                "compares them at what all have."
            )


def _unlike(runs: Sequence[SettledRun]) -> Iterator[str]:
    """Parameters in which runs differ that are reported as one."""
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for run in runs:
        told = run.source.details.get("told")
        if isinstance(told, dict):
            groups.setdefault((run.configuration.label, run.configuration.task), []).append(told)
    for (label, task), own in groups.items():
        keys = [k for k in own[0] if not k.startswith("mlflow.") and "seed" not in k.lower()]
        unlike = [k for k in keys if len({one.get(k) for one in own}) > 1]
        if unlike:
            yield (
                f"Runs of {label} on {task} differ in {shortened(unlike, MOST)}, and are reported "
                "as one: import those of one configuration with a --label of their own."
            )


def _left_out(read: ImportedStudy) -> Iterator[str]:
    if read.left_out:
        yield f"Not read: {shortened(list(read.left_out), MOST)}."
