"""`rlexp ls`: lists experiments, the runs of one, or configurations."""

import time
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlexp.cli.options import Json, console_for, here, render_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlexp.app.commands.list_runs import Listing
    from rlexp.console import Console

    Rows = Sequence[Mapping[str, Any]]


def list_runs(
    experiment: Annotated[str | None, typer.Argument(help="Show its runs")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="state=failed, task~cartpole, score>400, label=ppo …"),
    ] = None,
    sort: Annotated[str | None, typer.Option("--sort", help="A column; -column reverses")] = None,
    group: Annotated[bool, typer.Option("--group", help="One row a configuration")] = False,
    as_json: Json = False,
) -> None:
    """List experiments, or the runs of one."""
    from rlexp.app.commands.list_runs import Selection
    from rlexp.app.commands.list_runs import list_runs as use_case

    console = console_for(as_json=as_json)
    listing = use_case(Selection(experiment, tuple(where or ()), sort, group), here())
    render_result(listing, console, show_listing)
    for problem in listing.problems:
        console.note(problem)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a listing are printed.

    Attributes:
        printed: All that can be, in order.
        optional: Those of them that are left out where they are empty.
        heading: Those of them that stand above the table where all rows have the same value.
    """

    printed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()

    def named(self, metric: str) -> "Columns":
        """The columns under their names in the table: the aggregate has that of its metric."""
        return Columns(*(tuple(_named(names, metric)) for names in astuple(self)))

    def shared(self, rows: "Rows") -> list[str]:
        """The values that all rows have in common and that stand above the table."""
        values = [_values(rows, name) for name in self.heading]
        return [str(next(iter(v))) for v in values if len(v) == 1]

    def shown(self, rows: "Rows") -> list[str]:
        """The printed columns, without optional ones that are empty and those that are shared."""
        empty = {n for n in self.optional if all(row[n] in {None, 0} for row in rows)}
        shared = {n for n in self.heading if len(_values(rows, n)) <= 1}
        return [name for name in self.printed if name not in empty | shared]


COLUMNS = {
    "experiments": Columns(
        printed=(
            *("experiment", "task", "label", "phase", "planned", "done", "running", "failed"),
            *("missing", "continued", "restarted", "damaged", "estimate", "last", "problem"),
        ),
        optional=(
            *("phase", "running", "failed", "missing", "continued", "restarted", "damaged"),
            *("estimate", "problem"),
        ),
    ),
    "runs": Columns(
        printed=(
            *("run", "label", "task", "phase", "seed", "state", "failure", "score", "step"),
            *("began", "last", "problem"),
        ),
        optional=("failure", "score", "began", "problem"),
        heading=("label", "task", "phase"),
    ),
    "configurations": Columns(
        printed=(
            *("experiment", "label", "task", "phase", "n", "estimate", "low", "high", "failed"),
            *("missing", "counted_as_worst"),
        ),
        optional=("failed", "missing", "counted_as_worst"),
        heading=("experiment",),
    ),
}
"""By the kind of the listing."""


def show_listing(listing: "Listing", console: "Console") -> None:
    """Show a listing to people: what all rows share, a table, and how intervals were made."""
    if not listing.total:
        console.line(_nothing(listing))
        return
    if not listing.rows:
        conditions = " and ".join(listing.where)
        console.line(f"none of {listing.total} rows fulfils {conditions}")
        return
    columns = COLUMNS[listing.kind]
    named = columns.named(listing.metric)
    rows = _table_rows(listing, columns)
    if shared := named.shared(rows):
        console.line(" · ".join(shared))
    console.table(rows, named.shown(rows))
    for line in _interval_lines(listing):
        console.line(line)


def _nothing(listing: "Listing") -> str:
    name = listing.experiment
    empty = f"experiment {name} has no runs" if name else f"{listing.folder} holds no runs"
    return f"{empty} yet; 'rlexp run' makes some"


def _table_rows(listing: "Listing", columns: Columns) -> "Rows":
    """The printed columns of every row; the aggregate has the name of its metric."""
    return [
        {
            listing.metric if name == "estimate" else name: _cell(row, name)
            for name in columns.printed
        }
        for row in listing.rows
    ]


def _cell(row: Any, name: str) -> Any:
    """What a column shows: times as ages, aggregates with the digits of every other surface."""
    from rlexp.metrics.estimate_words import few_runs, runs_beside
    from rlexp.text import ago, number

    value, interval = getattr(row, name), getattr(row, "interval", None)
    if name == "last" and value is not None:
        return ago(time.time() - value)
    if interval is None or value is None or name not in {"estimate", "low", "high"}:
        return value
    runs = f" ({runs_beside(interval)})" if name == "estimate" and few_runs(interval) else ""
    return f"{number(value, interval.digits)}{runs}"


def _named(names: tuple[str, ...], metric: str) -> "Iterator[str]":
    return (metric if name == "estimate" else name for name in names)


def _values(rows: "Rows", column: str) -> set[Any]:
    return {row[column] for row in rows} - {None}


def _interval_lines(listing: "Listing") -> "Iterator[str]":
    """How the intervals of a table of configurations were made, and why some have none."""
    from rlexp.app.commands.list_runs import ConfigurationRow
    from rlexp.metrics.estimate_words import made_how, no_interval, possible

    rows = [row for row in listing.rows if isinstance(row, ConfigurationRow)]
    estimates = [row.interval for row in rows if row.interval is not None]
    for how in dict.fromkeys(made_how(e) for e in estimates if possible(e)):
        yield f"low and high: {how}, of the {listing.title}"
    for reason in dict.fromkeys(no_interval(e) for e in estimates if not possible(e)):
        yield f"—: {reason}"
