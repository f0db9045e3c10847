"""`rlexp ls`: every experiment, every run of one, or every configuration."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.app.select import Row, order_rows, read_conditions
from rlexp.app.summary import describe_run, summarise, worst_scores
from rlexp.app.survey import Found, Survey, survey
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import ConfigError
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State
from rlexp.reports.past import Past
from rlexp.reports.sentences import listed, shortened
from rlexp.text import ago


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a listing: all that can be asked about, and those that are printed."""

    words: tuple[str, ...]
    numbers: tuple[str, ...]
    printed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Everything that a condition or an order can name."""
        return (*self.words, *self.numbers)

    def shared(self, rows: Sequence[Row]) -> list[str]:
        """The values that all rows have in common and that stand above the table."""
        values = [_values(rows, name) for name in self.heading]
        return [str(next(iter(v))) for v in values if len(v) == 1]

    def shown(self, rows: Sequence[Row]) -> list[str]:
        """The printed columns, without optional ones that are empty and those that are shared."""
        empty = {n for n in self.optional if all(row[n] in {None, 0} for row in rows)}
        shared = {n for n in self.heading if len(_values(rows, n)) <= 1}
        return [name for name in self.printed if name not in empty | shared]


EXPERIMENTS = Columns(
    words=("experiment", "task", "label", "phase", "problem"),
    numbers=(
        *("planned", "done", "running", "failed", "missing", "continued", "restarted"),
        *("damaged", "iqm", "last"),
    ),
    printed=(
        *("experiment", "task", "label", "phase", "planned", "done", "running", "failed"),
        *("missing", "continued", "restarted", "damaged", "iqm", "last", "problem"),
    ),
    optional=(
        *("phase", "running", "failed", "missing", "continued", "restarted", "damaged"),
        *("iqm", "problem"),
    ),
)
RUNS = Columns(
    words=("run", "label", "task", "phase", "state", "failure", "reason", "began", "problem"),
    numbers=(
        *("seed", "score", "step", "steps", "seconds", "seconds_spent", "attempts", "restarts"),
        *("unreadable_lines", "last"),
    ),
    printed=(
        *("run", "label", "task", "phase", "seed", "state", "failure", "score", "step"),
        *("began", "last", "problem"),
    ),
    optional=("failure", "score", "began", "problem"),
    heading=("label", "task", "phase"),
)
GROUPS = Columns(
    words=("experiment", "label", "task", "phase"),
    numbers=("planned", "n", "iqm", "low", "high", "failed", "missing", "counted_as_worst"),
    printed=(
        *("experiment", "label", "task", "phase", "n", "iqm", "low", "high", "failed"),
        *("missing", "counted_as_worst"),
    ),
    optional=("failed", "missing", "counted_as_worst"),
    heading=("experiment",),
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which experiment's runs to list, or all experiments; which rows, in what order."""

    experiment: str | None = None
    where: tuple[str, ...] = ()
    sort: str | None = None
    group: bool = False


def list_all(selection: Selection, workspace: Workspace, console: Console) -> int:
    """List experiments, runs or configurations; returns the exit code.

    Raises:
        RlexpError: There is no such experiment or column, or a condition is none.
    """
    columns = GROUPS if selection.group else RUNS if selection.experiment else EXPERIMENTS
    conditions = _conditions(selection, columns)
    name = selection.experiment
    places = workspace.layout.experiments() if name is None else [workspace.experiment(name)]
    surveys = [survey(place, brief=True) for place in places]
    rows = [row for one in surveys for row in _rows(one, columns)]
    wanted = [row for row in rows if all(c.holds(row) for c in conditions)]
    ordered = order_rows(wanted, selection.sort, columns.all)
    if console.as_json:
        console.json(ordered)
    elif not rows:
        empty = (
            f"experiment {name} has no runs" if name else f"{workspace.layout.root} holds no runs"
        )
        console.line(f"{empty} yet; 'rlexp run' makes some")
    elif not ordered:
        console.line(f"none of {len(rows)} rows fulfils {' and '.join(selection.where)}")
    else:
        if shared := columns.shared(ordered):
            console.line(" · ".join(shared))
        console.table([_aged(row) for row in ordered], columns.shown(ordered))
        _explain(ordered, columns, console)
    _remark(surveys, columns, console)
    return 0


def _conditions(selection: Selection, columns: Columns) -> list[Any]:
    try:
        conditions = read_conditions(selection.where, columns.numbers, columns.words)
        order_rows((), selection.sort, columns.all)
    except ConfigError as error:
        if columns is not EXPERIMENTS:
            raise
        raise error.rephrased(
            f"{error}; runs have further columns: rlexp ls EXPERIMENT"
        ) from error
    return conditions


def _rows(one: Survey, columns: Columns) -> Iterable[dict[str, Any]]:
    if columns is GROUPS:
        return _groups(one)
    return [_row(f) for f in one.runs] if columns is RUNS else [_experiment(one)]


def _row(found: Found) -> dict[str, Any]:
    empty = {**dict.fromkeys(RUNS.all), "run": found.name}
    if found.configuration is None or found.stored is None:
        return {**empty, "state": "damaged", "problem": found.problem}
    record = found.stored.record
    return {
        **empty,
        **describe_run(found.configuration, found.stored),
        "phase": str(record.spec.phase),
        "state": "damaged" if found.damaged else str(record.state),
        "began": _began(record),
        "last": record.last,
        "problem": found.problem,
    }


def _experiment(one: Survey) -> dict[str, Any]:
    planned = [f for f in one.runs if f.planned and f.stored]
    states = [f.stored.record.state for f in planned if f.stored]
    past = Past.of(f.stored.record for f in planned if f.stored)
    done = sum(s in {State.COMPLETED, State.PRUNED} for s in states)
    running, failed = states.count(State.RUNNING), states.count(State.FAILED)
    named = [f.configuration for f in planned or one.runs if f.configuration]
    times = [t for f in one.runs if f.stored and (t := f.stored.record.last) is not None]
    return {
        "experiment": one.paths.name,
        "task": ", ".join(dict.fromkeys(c.task for c in named)) or None,
        "label": shortened(list(dict.fromkeys(c.label for c in named)), 4) or None,
        "phase": ", ".join(one.phases) or None,
        "planned": len(planned),
        "done": done,
        "running": running,
        "failed": failed,
        "missing": len(planned) - done - running - failed,
        "continued": past.continued,
        "restarted": past.restarted,
        "damaged": sum(f.damaged for f in one.runs),
        "iqm": _single_iqm(one),
        "last": max(times, default=None),
        "problem": one.problem,
    }


def _single_iqm(one: Survey) -> float | None:
    """The IQM of an experiment of one configuration: of its test phase, or of its only one."""
    if one.experiment is None or len(one.experiment.configurations) != 1 or not one.phases:
        return None
    from rlexp.stats.aggregate import interquartile_mean
    from rlexp.stats.task_scores import TaskScores

    entries = one.entries(Phase.TEST if len(one.phases) > 1 else one.phases[0])
    records = [stored.record for _, stored in entries]
    scoreless = sum(record.scoreless for record in records)
    worst = worst_scores(one.experiment.configurations[0], one.experiment, scoreless)
    scores = [r.score for r in records if r.score is not None] + worst
    return float(interquartile_mean(TaskScores.from_tasks([scores]))) if scores else None


def _groups(one: Survey) -> Iterator[dict[str, Any]]:
    if one.experiment is None:
        return
    for phase in one.phases:
        summary = summarise(one.paths, one.experiment, phase, one.entries(phase))
        for cell in summary["cells"]:
            iqm: Mapping[str, Any] = cell["iqm"] or {}
            yield {
                "experiment": one.paths.name,
                **{key: cell[key] for key in ("label", "task")},
                "phase": str(phase),
                **{key: cell[key] for key in ("planned", "n", "failed", "missing")},
                "counted_as_worst": cell["counted_as_worst"],
                "iqm": iqm.get("estimate"),
                "low": iqm.get("low"),
                "high": iqm.get("high"),
                "interval": cell["iqm"],
            }


def _began(record: RunRecord) -> str | None:
    """Where its attempts after the first began, if there are any."""
    continued = [f"{event.step:,}" for event in record.continuations]
    told = [f"checkpoint {listed(continued)}"] if continued else []
    told += ["anew"] if record.restarts else []
    return ", ".join(told) or None


def _values(rows: Sequence[Row], column: str) -> set[Any]:
    return {row[column] for row in rows} - {None}


def _aged(row: Row) -> dict[str, Any]:
    last = row.get("last")
    return {**row, "last": None if last is None else ago(time.time() - last)}


def _explain(rows: Sequence[Row], columns: Columns, console: Console) -> None:
    """Say how the intervals of a table of configurations were made."""
    if columns is not GROUPS:
        return
    told = [i for row in rows if (i := row["interval"]) and i["low"] is not None]
    if told:
        i = told[0]
        console.line(
            f"low and high: {i['level']:.0%} interval of the IQM ({i['method']}, "
            f"{i['repetitions']:,} resamples, seed {i['seed']})",
        )


def _remark(surveys: Sequence[Survey], columns: Columns, console: Console) -> None:
    """Say on standard error what a table has no place for."""
    if columns is EXPERIMENTS:
        return
    for one in surveys:
        if columns is GROUPS:
            for problem in one.problems:
                console.note(f"{one.paths.name}: {problem}")
        elif one.problem:
            console.note(one.problem)
