"""`rlexp ls`: lists experiments, the runs of one, or configurations."""

import time
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlexp.cli.options import Json, console_for, current_workspace, render_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlexp.app.commands.list_runs import Listing
    from rlexp.console import Console

    Rows = Sequence[Mapping[str, Any]]


def list_runs(
    experiment: Annotated[
        str | None, typer.Argument(help="List the runs of this experiment.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", help="Only rows with state=failed, task~cartpole, score>400, label=ppo …"
        ),
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", help="Sort by this column; -column reverses the order.")
    ] = None,
    group: Annotated[
        bool, typer.Option("--group", help="List configurations instead of runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List experiments, or the runs of one experiment."""
    from rlexp.app.commands.list_runs import ListRequest
    from rlexp.app.commands.list_runs import list_runs as use_case

    console = console_for(as_json=as_json)
    listing = use_case(
        ListRequest(experiment, tuple(where or ()), sort, group), current_workspace()
    )
    render_result(listing, console, show_listing)
    for problem in listing.problems:
        console.note(problem)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a listing that are printed.

    Attributes:
        printed: All columns that can be printed, in order.
        optional: Columns that are left out where all their values are empty or 0.
        heading: Columns whose value is printed above the table where all rows share it.
    """

    printed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()

    def named(self, metric: str) -> "Columns":
        """The columns with `estimate` renamed to the metric, as the table shows it."""
        return Columns(*(tuple(_named(names, metric)) for names in astuple(self)))

    def shared(self, rows: "Rows") -> list[str]:
        """The values that all rows share, for the line above the table."""
        values = [_values(rows, name) for name in self.heading]
        return [str(next(iter(v))) for v in values if len(v) == 1]

    def shown(self, rows: "Rows") -> list[str]:
        """The printed columns, without empty optional columns and without shared columns."""
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
            *("run", "label", "task", "phase", "seed", "state", "failure", "score", "measures"),
            *("step", "began", "last", "parameters", "problem"),
        ),
        optional=("failure", "score", "measures", "began", "parameters", "problem"),
        heading=("label", "task", "phase"),
    ),
    "configurations": Columns(
        printed=(
            *("experiment", "label", "task", "phase", "n", "estimate", "low", "high", "failed"),
            *("missing", "counted_as_worst", "parameters"),
        ),
        optional=("failed", "missing", "counted_as_worst", "parameters"),
        heading=("experiment",),
    ),
}
"""The printed columns of each kind of listing."""


def show_listing(listing: "Listing", console: "Console") -> None:
    """Show a listing: values that all rows share, a table, and the method of its intervals."""
    if not listing.total:
        console.line(_nothing(listing))
        return
    if not listing.rows:
        conditions = " and ".join(listing.where)
        console.line(f"no row of {listing.total} matches {conditions}")
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
    return f"{empty} yet; to start some, use 'rlexp run'"


def _table_rows(listing: "Listing", columns: Columns) -> "Rows":
    """The printed columns of every row; the column `estimate` has the name of the metric."""
    return [
        {
            listing.metric if name == "estimate" else name: _cell(row, name)
            for name in columns.printed
        }
        for row in listing.rows
    ]


def _cell(row: Any, name: str) -> Any:
    """The printed value of a column: a time as an age, an aggregate with its digits.

    Aggregates have the same digits as in reports and in `rlexp show`.
    """
    from rlexp.metrics.estimate_text import few_runs, runs_beside
    from rlexp.text import format_age, format_number

    value, interval = getattr(row, name), getattr(row, "interval", None)
    if name == "last" and value is not None:
        return format_age(time.time() - value)
    if interval is None or value is None or name not in {"estimate", "low", "high"}:
        return value
    runs = f" ({runs_beside(interval)})" if name == "estimate" and few_runs(interval) else ""
    return f"{format_number(value, interval.digits)}{runs}"


def _named(names: tuple[str, ...], metric: str) -> "Iterator[str]":
    return (metric if name == "estimate" else name for name in names)


def _values(rows: "Rows", column: str) -> set[Any]:
    return {row[column] for row in rows} - {None}


def _interval_lines(listing: "Listing") -> "Iterator[str]":
    """The method of the intervals of configurations, and why some have no interval."""
    from rlexp.app.commands.list_runs import ConfigurationRow
    from rlexp.metrics.estimate_text import method_text, no_interval, possible

    rows = [row for row in listing.rows if isinstance(row, ConfigurationRow)]
    estimates = [row.interval for row in rows if row.interval is not None]
    for how in dict.fromkeys(method_text(e) for e in estimates if possible(e)):
        yield f"low and high: {how}, of the {listing.title}"
    for reason in dict.fromkeys(no_interval(e) for e in estimates if not possible(e)):
        yield f"—: {reason}"
