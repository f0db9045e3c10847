"""`rlexp ls`: lists experiments, the runs of one, or configurations."""

import time
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import Json, console_for, current_workspace, render_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rlexp.app.commands.look.list_columns import ListingColumn, ListingColumns
    from rlexp.app.commands.look.list_runs import Listing
    from rlexp.console import Console

    Rows = Sequence[Mapping[str, Any]]


def list_runs(
    experiment: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_experiment, help="List the runs of this experiment."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="Only rows with state=failed, task~cartpole, score>400, algorithm=ppo, "
            "algorithm.learning_rate<0.001, success>0.5, tag=paper …; may be repeated.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort", help="Sort by this column, key or measure; -column reverses the order."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="Columns, keys and measures to show: run,score,success."),
    ] = None,
    names: Annotated[
        bool,
        typer.Option(
            "--list-columns",
            help="List the names that --where, --sort and --columns take, with their values.",
        ),
    ] = False,
    group: Annotated[
        bool, typer.Option("--group", help="List configurations instead of runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List experiments, or the runs of one experiment."""
    from rlexp.app.commands.look.list_columns import list_columns
    from rlexp.app.commands.look.list_runs import ListRequest
    from rlexp.app.commands.look.list_runs import list_runs as use_case

    console = console_for(as_json=as_json)
    requested = tuple(name.strip() for words in columns or () for name in words.split(","))
    request = ListRequest(experiment, tuple(where or ()), sort, group, requested)
    if names:
        render_result(list_columns(request, current_workspace()), console, show_names)
        return
    listing = use_case(request, current_workspace())
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


WIDE = ("parameters", "measures", "began", "note", "last")
"""Columns that are left out, in this order, where the table is wider than the terminal."""
SHORTEST_LABEL = 16
"""Characters that a long label keeps where the table is wider than the terminal."""
LONGEST_NOTE = 40
"""Most characters of a note in a table."""
COLUMNS = {
    "experiments": Columns(
        printed=(
            *("experiment", "task", "label", "phase", "planned", "done", "running", "failed"),
            *("missing", "continued", "restarted", "damaged", "estimate", "last", "problem"),
            *("tags", "note"),
        ),
        optional=(
            *("phase", "running", "failed", "missing", "continued", "restarted", "damaged"),
            *("estimate", "problem", "tags", "note"),
        ),
    ),
    "runs": Columns(
        printed=(
            *("run", "label", "task", "phase", "seed", "state", "failure", "score", "measures"),
            *("step", "unit", "began", "last", "parameters", "problem", "tags", "note"),
        ),
        optional=(
            "failure",
            "unit",
            "score",
            "measures",
            "began",
            "parameters",
            "problem",
            "tags",
            "note",
        ),
        heading=("label", "task", "phase", "unit"),
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
        for line in listing.unmatched:
            console.line(line)
        return
    columns = _asked(listing) if listing.columns else COLUMNS[listing.kind]
    named = columns.named(listing.metric)
    rows = _table_rows(listing, columns)
    if shared := named.shared(rows):
        console.line(" · ".join(shared))
    shown = named.shown(rows)
    if listing.columns:
        console.table(rows, shown)
    else:
        _show_fitting(listing, rows, shown, console)
    for line in _interval_lines(listing):
        console.line(line)


def _show_fitting(
    listing: "Listing", rows: "Rows", shown: "Sequence[str]", console: "Console"
) -> None:
    """Show what fits the terminal, and the command that shows the columns that do not."""
    width = console.out.width
    # An experiment is known by its name: its labels, phases and aggregate come second.
    by_name = listing.kind == "experiments"
    further = ("phase", listing.metric) if by_name else ()
    least = SHORTEST_LABEL if by_name else None
    fitting = fitting_columns(rows, shown, width, (*WIDE, *further), least)
    cut = _with_short_labels(rows, fitting, width)
    if not by_name and len(_values(cut, "label")) < len(_values(rows, "label")):
        # Labels that look the same would be worse than a table that is folded.
        cut = rows
    console.table(cut, fitting)
    left = [name for name in shown if name not in fitting]
    words = "Left out"
    if cut != rows:
        left, words = [*left, "label"], "Left out or cut"
    if left:
        command = _command(listing, left)
        console.line(f"{words} at this width: {', '.join(left)}; to see them: {command}")


def fitting_columns(
    rows: "Rows",
    shown: "Sequence[str]",
    width: int,
    wide: "Sequence[str]",
    longest_label: int | None = None,
) -> list[str]:
    """The columns of a table without those that make it wider than the terminal.

    Args:
        rows: The rows.
        shown: The columns of the whole table.
        width: Columns of characters of the terminal.
        wide: The columns that may be left out, the first one first.
        longest_label: Characters to which labels will be cut; None if they are not cut for this.
    """
    widths = _widths(rows, shown)
    if "label" in widths and longest_label is not None:
        widths["label"] = min(widths["label"], longest_label)
    kept = list(shown)
    for name in wide:
        if _total(widths, kept) > width and name in kept:
            kept.remove(name)
    return kept


def _with_short_labels(rows: "Rows", columns: "Sequence[str]", width: int) -> "Rows":
    """The rows with labels that are cut where these columns are wider than the terminal."""
    from rlexp.text import shorten_middle

    widths = _widths(rows, columns)
    if "label" not in widths or (over := _total(widths, columns) - width) <= 0:
        return rows
    most = max(widths["label"] - over, SHORTEST_LABEL)
    return [{**row, "label": row["label"] and shorten_middle(row["label"], most)} for row in rows]


def _widths(rows: "Rows", columns: "Sequence[str]") -> dict[str, int]:
    """The characters of the longest text of each column."""
    from rlexp.text import format_cell

    return {n: max(len(n), *(len(format_cell(row[n])) for row in rows)) for n in columns}


def _total(widths: "Mapping[str, int]", columns: "Sequence[str]") -> int:
    """The characters of a line with these columns and the gaps between them."""
    return sum(widths[name] + 2 for name in columns) - 2


def _command(listing: "Listing", columns: "Sequence[str]") -> str:
    """The command that shows the columns that a table has no space for."""
    import shlex

    target = [listing.experiment] if listing.experiment else []
    group = ["--group"] if listing.kind == "configurations" else []
    where = [word for condition in listing.where for word in ("--where", condition)]
    first = {"runs": "run", "configurations": "label"}.get(listing.kind, "experiment")
    words = [
        "rlexp",
        "ls",
        *target,
        *group,
        *where,
        "--columns",
        ",".join(dict.fromkeys([first, *columns])),
    ]
    return shlex.join(words)


def _asked(listing: "Listing") -> Columns:
    """The columns that were asked for; the aggregate has the name of its metric there."""
    names = ("estimate" if n == listing.metric else n for n in listing.columns)
    return Columns(printed=tuple(names))


def _nothing(listing: "Listing") -> str:
    name = listing.experiment
    empty = f"experiment {name} has no runs" if name else f"{listing.folder} holds no runs"
    return f"{empty} yet; to start some, use 'rlexp run'"


def _table_rows(listing: "Listing", columns: Columns) -> "Rows":
    """The printed columns of every row; the column `estimate` has the name of the metric."""
    cell = _cells(several=listing.kind == "experiments", asked=bool(listing.columns))
    named = [(listing.metric if name == "estimate" else name, name) for name in columns.printed]
    return [{shown: cell(row, name) for shown, name in named} for row in listing.rows]


def _cells(*, several: bool, asked: bool) -> "Callable[[Any, str], Any]":
    """A function that returns the printed value of a column: a time as an age, an aggregate in digits.

    Aggregates have the same digits as in reports and in `rlexp show`. A table has a hundred thousand
    cells: the modules are looked up once for all of them.
    """
    from rlexp.metrics.estimate_text import few_runs, runs_beside
    from rlexp.protocol.units import ENVIRONMENT_STEPS, unit_text
    from rlexp.text import format_age, format_number

    value_of = _values_of(several=several)

    def cell(row: Any, name: str) -> Any:
        value = value_of(row, name)
        if name == "last" and value is not None:
            return format_age(time.time() - value)
        if name == "unit" and value is not None:
            # Steps are environment steps where nothing is said.
            return None if value == ENVIRONMENT_STEPS and not asked else unit_text(value)
        if value is None or name not in {"estimate", "low", "high"}:
            return value
        interval = getattr(row, "interval", None)
        if interval is None:
            return value
        runs = f" ({runs_beside(interval)})" if name == "estimate" and few_runs(interval) else ""
        return f"{format_number(value, interval.digits)}{runs}"

    return cell


MISSING = object()
"""Stands for an attribute that a row does not have."""


def _values_of(*, several: bool) -> "Callable[[Any, str], Any]":
    """A function that returns the value of a column or key of a row; several values as one text."""
    from rlexp.app.reading.run_settings import FIRST_WORDS
    from rlexp.conditions import setting_text
    from rlexp.text import format_cell

    def value_of(row: Any, name: str) -> Any:
        attribute: Any = getattr(row, name, MISSING)
        value = row.columns[name] if attribute is MISSING else attribute
        if isinstance(value, tuple):
            return ", ".join(value) or None
        if attribute is not MISSING:
            return _beginning(value) if name == "note" and value else value
        # Settings are printed as they were given: rounding would show another configuration.
        text = setting_text if name.split(".", maxsplit=1)[0] in FIRST_WORDS else format_cell
        # An experiment has the list of the values of its runs.
        values = value if several and isinstance(value, list) else [value]
        return ", ".join(text(v) for v in values if v is not None) or None

    return value_of


def _beginning(note: str) -> str:
    """The beginning of a note, on one line; `rlexp note` shows all of it."""
    from rlexp.text import one_line

    text = one_line(note)
    return text if len(text) <= LONGEST_NOTE else f"{text[: LONGEST_NOTE - 1]}…"


def show_names(names: "ListingColumns", console: "Console") -> None:
    """Show the names that `--where`, `--sort` and `--columns` take, and their values."""
    rows = [{"name": row.name, "values": _first_values(row)} for row in names.rows]
    console.table(rows, ("name", "values"))


def _first_values(column: "ListingColumn") -> str:
    """The first values of a key (`a2c, ppo and 3 more`); empty for a column."""
    from rlexp.conditions import setting_text

    listed = ", ".join(map(setting_text, column.values))
    more = (column.total or 0) - len(column.values)
    return f"{listed} and {more} more" if more else listed


def _named(names: tuple[str, ...], metric: str) -> "Iterator[str]":
    return (metric if name == "estimate" else name for name in names)


def _values(rows: "Rows", column: str) -> set[Any]:
    return {row[column] for row in rows} - {None}


def _interval_lines(listing: "Listing") -> "Iterator[str]":
    """The method of the intervals of configurations, and why some have no interval."""
    from rlexp.app.commands.look.listing_rows import ConfigurationRow
    from rlexp.metrics.estimate_text import method_text, no_interval, possible

    rows = [row for row in listing.rows if isinstance(row, ConfigurationRow)]
    estimates = [row.interval for row in rows if row.interval is not None]
    for how in dict.fromkeys(method_text(e) for e in estimates if possible(e)):
        yield f"low and high: {how}, of the {listing.title}"
    for reason in dict.fromkeys(no_interval(e) for e in estimates if not possible(e)):
        yield f"—: {reason}"
