"""`rlexp status`: how far experiments and sweeps are, whichever command drives them."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rlexp.app.away import Away
from rlexp.app.survey import Survey, survey
from rlexp.app.sweep_state import Closed, resume
from rlexp.app.sweep_view import view_of, why_stopped
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.console.sweep import status_line, trial_line
from rlexp.engine.running import read_progress
from rlexp.errors import RecordError, RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.records.run import State
from rlexp.reports.past import Past
from rlexp.reports.sentences import counted
from rlexp.store.lease import is_held
from rlexp.store.runs import StoredRun

EVERY = 2.0
"""Seconds between looks."""
LATEST = 5
"""Trials that are shown of a sweep."""


def show_status(
    experiment: str | None, workspace: Workspace, console: Console, *, watch: bool
) -> int:
    """Show how far everything is, once or until nothing runs any more; returns 0.

    Raises:
        RecordError: There is no such experiment.
    """
    if not watch:
        _show(_look(experiment, workspace), console)
        return 0

    def lines() -> tuple[list[str], bool]:
        found = _look(experiment, workspace)
        return [line for one in found for line in one["lines"]], any(o["driven"] for o in found)

    console.redraw(lines, lambda: time.sleep(EVERY))
    return 0


def _look(experiment: str | None, workspace: Workspace) -> list[dict[str, Any]]:
    workspace.make_allowed_importable()
    places = (
        workspace.layout.experiments()
        if experiment is None
        else [workspace.experiment(experiment)]
    )
    if not places:
        raise RecordError(f"{workspace.layout.root} holds no runs yet; 'rlexp run' makes some")
    return [_of(survey(place, brief=True), workspace) for place in places]


def _show(found: list[dict[str, Any]], console: Console) -> None:
    plain = [{k: v for k, v in one.items() if k != "lines"} for one in found]
    console.show(plain, [line for one in found for line in one["lines"]])


def _of(found: Survey, workspace: Workspace) -> dict[str, Any]:
    """Where one experiment stands, and how that is said."""
    runs = _stored(found)
    states = Counter(str(stored.record.state) for stored in runs)
    driven = is_held(found.paths.lock)
    told: dict[str, Any] = {
        "experiment": found.paths.name,
        "driven": driven,
        "runs": dict(states),
        "problems": found.problems,
    }
    head = f"{found.paths.name}: " + ("runs now" if driven else "no command drives it")
    lines = [head]
    if found.experiment is not None and found.experiment.sweep is not None:
        more, own = _sweep(found, found.experiment, runs, workspace)
        told |= more
        lines += own
    else:
        counts = ", ".join(f"{n} {state}" for state, n in sorted(states.items()))
        lines.append(f"  {counted(len(runs), 'run')}: {counts}" if runs else "  no run yet")
    away = Away.of(found.paths)
    told["away"] = away.plain()
    lines += [f"  {line}" for line in away.lines()]
    past = Past.of(stored.record for stored in runs)
    told["past"] = past.plain()
    lines += [f"  {line}" for line in past.sentences()]
    lines += [f"  {line}" for line in _running(runs)]
    lines += [f"  damaged: {line}" for line in found.problems]
    return {**told, "lines": lines}


def sweep_lines(found: Survey, workspace: Workspace) -> list[str]:
    """How far a sweep is, and its latest trials, a line each."""
    assert found.experiment is not None
    workspace.make_allowed_importable()
    return _sweep(found, found.experiment, _stored(found), workspace)[1]


def _stored(found: Survey) -> list[StoredRun]:
    # Of a definition that cannot be read, nothing is known to be planned.
    known = found.experiment is not None
    return [
        f.stored
        for f in found.runs
        if f.stored is not None and (f.planned or not known) and not f.damaged
    ]


def _sweep(
    found: Survey, experiment: Experiment, runs: list[StoredRun], workspace: Workspace
) -> tuple[dict[str, Any], list[str]]:
    try:
        sweeping = resume(found.paths, experiment, runs, workspace, Closed())
    except RlexpError as error:
        return {"problem": str(error)}, [f"  {error}"]
    spent = {s.record.spec.id: s.record.spent for s in runs}
    workers = max(sum(s.record.state is State.RUNNING for s in runs), 1)
    view = view_of(sweeping, spent, workers)
    driven = is_held(found.paths.lock)
    stopped = None if driven else why_stopped(sweeping)
    view = replace(view, driven=driven, left=view.left if stopped is None else None)
    told = {
        "stage": view.stage,
        "stopped": stopped,
        "trials": {
            "planned": sweeping.search.question.plan.trials,
            "ended": len(view.ended),
            "running": view.running if driven else 0,
            "unfinished": view.running,
        },
        "best": None if view.best is None else {"trial": view.best[0], "value": view.best[1]},
        "winner": view.winner,
        "steps": view.steps,
        "seconds_left": view.left,
    }
    latest = [f"    {trial_line(trial)}" for trial in view.ended[-LATEST:]]
    why = [] if stopped is None else [f"  it stopped: {stopped}"]
    return told, [f"  {status_line(view)}", *why, *latest]


def _running(runs: list[StoredRun]) -> Iterator[str]:
    """A line for each run under way."""
    for stored in runs:
        record = stored.record
        if record.state is State.RUNNING:
            step, _ = read_progress(stored.paths.attempts()[-1].progress)
            steps = record.spec.budget["steps"]
            last = f", return {record.evaluations[-1].mean:,.1f}" if record.evaluations else ""
            yield f"  {record.spec.name} at step {step:,} of {steps:,}{last}"
