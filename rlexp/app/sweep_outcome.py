"""What a sweep has found so far, and the commands that make sense now."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from rlexp.app.gather import gather
from rlexp.app.reporting.build import make_study
from rlexp.app.sweep_ledger import FolderLedger
from rlexp.app.sweep_view import trial_lines
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.console import Console
from rlexp.engine.sweeping import Stage, Sweeping
from rlexp.engine.systematic import first_failed_run
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State
from rlexp.reports.blocks import Block, Notice, Table
from rlexp.reports.blocks import Study as Report
from rlexp.reports.formats.as_json import plain
from rlexp.reports.past import Past
from rlexp.reports.sentences import counted
from rlexp.reports.sweep_evidence import SweepEvidence
from rlexp.store.files import read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.secrets import without_secrets
from rlexp.text import duration

SECTIONS = "section=[winner,verdicts]"
"""The sections of a report that the end of a sweep shows."""
SEEDS = 10
"""Test seeds that are proposed where there are none."""
THOUGHT = 0.05
"""Share of the search's time that suggesting may take before it is said."""
TRACEBACK = 30
"""Lines of a failed run's log that are shown."""


def show_outcome(
    paths: ExperimentPaths,
    sweeping: Sweeping,
    ledger: FolderLedger,
    *,
    command: Sequence[str],
    ran: int,
    workspace: Workspace,
    console: Console,
) -> None:
    """Show the winner with its tests, or how far the search is; and what to do next.

    Args:
        paths: The sweep's folder.
        sweeping: The sweep as it stands.
        ledger: Which took the time of the tuner.
        command: What the user typed.
        ran: Runs that this command brought to their end.
        workspace: Where it is.
        console: To show it on.
    """
    evidence = gather([paths.name], Phase.TEST, workspace)
    parts = read_report([SECTIONS], workspace.folder, workspace.allowed)
    computed = make_study(evidence, parts)
    following = _next(paths, sweeping, command, workspace)
    thought = _thought(sweeping, ledger)
    past = Past.of(sweeping.records.values())
    if console.as_json:
        told = {"experiment": paths.name, "folder": str(paths.folder), "stage": sweeping.stage}
        trials = _counts(sweeping)
        console.json(
            {
                **told,
                "ran": ran,
                "halted": sweeping.halted,
                "trials": trials,
                "suggestions": thought,
                "past": past.plain(),
                "cost": {
                    phase: asdict(c) for own in evidence.sweeps for phase, c in own.costs.items()
                },
                **plain(computed),
                "next": following,
            }
        )
        return
    if not ran and sweeping.stage is Stage.DONE:
        console.line(f"{paths.name}: nothing to run, the sweep is at its end")
    for block in _short(computed):
        console.line()
        console.blocks([block])
    console.line()
    for sweep in evidence.sweeps:
        console.line(f"Cost: {_cost(sweep)}")
    if thought["suggestions"] and thought["share"] > THOUGHT:
        console.line(
            f"Suggesting {thought['suggestions']} trials took {thought['share']:.0%} of the "
            f"search's time, at most {thought['longest']:.1f} s each"
        )
    for line in past.sentences():
        console.line(line)
    console.line(f"Records: {paths.folder}")
    for step in following:
        console.line(f"To {step['why']}: {step['command']}")
    if hidden := len(command) - len(without_secrets(command)):
        console.note(
            f"{counted(hidden, 'word')} with a secret left out: keep it in an environment "
            "variable, and write '${oc.env:NAME}'"
        )


def tell_why(paths: ExperimentPaths, sweeping: Sweeping, console: Console) -> None:
    """Say why the sweep stopped, with the end of the log of the first run that failed."""
    console.error(f"the sweep stops: {sweeping.halted}")
    record = first_failed_run(sweeping.search)
    if record is None:
        return
    run = paths.run(record.spec.name)
    try:
        lines = read_file(run.attempts()[-1].log).decode(errors="replace").splitlines()
    except (OSError, IndexError):
        lines = []
    for line in lines[-TRACEBACK:]:
        console.note(f"  {line}")
    target = f"{paths.name}/{record.spec.name}"
    console.note(f"To see its whole log: {shlex.join(['rlexp', 'logs', target])}")


def _short(computed: Report) -> Iterator[Block]:
    """What people are told at once; the report has everything."""
    notices: list[Block] = [
        b for part in computed.parts for b in part.blocks if isinstance(b, Notice)
    ]
    tables = {b.name: b for part in computed.parts for b in part.blocks if isinstance(b, Table)}
    yield from notices[:1]
    if (scores := tables.get("winner-scores")) is not None:
        yield scores
    if (settings := tables.get("winner-settings")) is not None:
        searched = tuple(row for row in settings.rows if row[1] is not None)
        yield replace(settings, title="What was searched", rows=searched, note="")
    yield from notices[1:] if computed.labels else ()


def _cost(sweep: SweepEvidence) -> str:
    """What each phase took, in words."""
    told = [
        f"{phase} {counted(cost.runs, 'run')}, {cost.steps:,} environment steps, "
        f"{duration(cost.seconds)} of training"
        for phase, cost in sweep.costs.items()
        if cost.runs
    ]
    return " · ".join(told) or "nothing yet"


def _counts(sweeping: Sweeping) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in trial_lines(sweeping):
        counts[line.state] = counts.get(line.state, 0) + 1
    return {**counts, "proposed": len(sweeping.search.entries)}


def _thought(sweeping: Sweeping, ledger: FolderLedger) -> dict[str, Any]:
    """Seconds that this command's suggestions took, and their share of the runs' time."""
    thinking = ledger.thinking[-1] if ledger.thinking else None
    trained = sum(
        r.seconds_spent for r in sweeping.records.values() if r.spec.phase is Phase.TUNING
    )
    total = thinking.total if thinking else 0.0
    return {
        "suggestions": thinking.suggestions if thinking else 0,
        "seconds": total,
        "longest": thinking.longest if thinking else 0.0,
        "share": total / trained if trained else 0.0,
    }


def _next(
    paths: ExperimentPaths, sweeping: Sweeping, command: Sequence[str], workspace: Workspace
) -> list[dict[str, str]]:
    """The commands that make sense now, each with what it is for."""
    permission = workspace.permission
    again, name = [*without_secrets(command), *permission], paths.name
    retry = {
        "why": "try the failed runs again",
        "command": shlex.join([*again, "--retry"]),
    }
    write = {
        "why": "write the report",
        "command": shlex.join(["rlexp", "report", name, *permission]),
    }
    if sweeping.halted is not None:
        # Combinations that cannot be run fail without one, and would do so again.
        return [retry if _failed(sweeping.records.values()) else write]
    untested = sweeping.selection is not None and sweeping.until is not Stage.TEST
    if sweeping.stage is not Stage.DONE or untested:
        return [{"why": "continue", "command": shlex.join(again)}]
    tests = [r for r in sweeping.records.values() if r.spec.phase is Phase.TEST]
    steps = [retry] if _failed(tests) else []
    steps.append(write)
    train = shlex.join(["rlexp", "run", "--from-sweep", name, *permission])
    steps.append({"why": "train the winner again", "command": train})
    seeds = sweeping.seeds.test
    if isinstance(seeds, int):
        kept = [w for w in again if not w.startswith("seeds.test=")]
        more = shlex.join([*kept, f"seeds.test={2 * seeds or SEEDS}"])
        steps.append({"why": "add test seeds", "command": more})
    return steps


def _failed(records: Iterable[RunRecord]) -> bool:
    return any(record.state is State.FAILED for record in records)
