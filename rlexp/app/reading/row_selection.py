"""Chooses and orders the rows of a listing by columns, keys of the configuration, and measures.

A row stands for runs, or for one configuration. A name that is no column of the row is looked up
in what it stands for: a condition on a listing of experiments keeps those with a run that fulfils it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol

from rlexp.app.reading.run_settings import FIRST_WORDS, Settings
from rlexp.conditions import Condition, is_missing, is_number, order_key, setting_text
from rlexp.errors import ConfigError, did_you_mean
from rlexp.text import join_first_names

ESTIMATE = "estimate"
"""The field of the aggregate; users see its column under the name of the metric."""
ALIASES = {"tag": "tags"}
"""Names that users may write for a column: a condition asks for one tag (`tag=paper`)."""
MEASURE = "measure/"
"""Prefix by which a measure is named that has the name of a column or of a key."""
MOST_NEAR = 8
"""Most names that an error about an unknown name lists."""


class ListingRow(Protocol):
    """A row of a listing: a dataclass whose fields are columns."""

    text_columns: ClassVar[tuple[str, ...]]
    """Columns of text; conditions compare them with `=`, `!=` and `~`."""
    number_columns: ClassVar[tuple[str, ...]]
    """Columns of numbers; conditions compare them with `<` and `>`, too."""


@dataclass(frozen=True, slots=True)
class Member:
    """A run or a configuration that a row stands for.

    Attributes:
        settings: Returns its configuration by key.
        measure_names: Returns the names of its measures.
        measure: Returns the mean of a measure. A run in a listing of experiments has the mean over
            the runs of its label.
        run: Makes the row of the run; None for a configuration.
    """

    settings: Callable[[], Settings]
    measure_names: Callable[[], Iterable[str]]
    measure: Callable[[str], float | None]
    run: Callable[[], ListingRow] | None = None

    def value(self, name: str, columns: Sequence[str]) -> Any:
        """The value of a column of runs, a key or a measure; None where there is none."""
        if name in columns:
            return getattr(self.run(), name) if self.run else None
        settings = self.settings()
        return settings[name] if name in settings else self.measure(name.removeprefix(MEASURE))


@dataclass(frozen=True, slots=True)
class RowMembers:
    """A row with the runs or the configuration that it stands for."""

    row: Any
    members: Sequence[Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """The conditions, the order and the columns of a listing.

    Attributes:
        row: The class of the rows.
        run: The class of rows of runs, in a listing of experiments; its columns may be asked, too.
        metric: The name of the aggregate, which stands for the column `estimate`.
        conditions: The conditions that every row fulfils.
        sort: The name to sort by, with a `-` before it for the descending order.
        columns: The names whose values the rows carry.
        command: The command that lists all names.
    """

    row: type[ListingRow]
    run: type[ListingRow] | None
    metric: str
    conditions: Sequence[Condition] = ()
    sort: str | None = None
    columns: Sequence[str] = ()
    command: str = "rlexp ls --list-columns"

    def kept(self, rows: Sequence[RowMembers]) -> list[Any]:
        """The rows that fulfil all conditions, in order, with the values of `columns`.

        Raises:
            ConfigError: A name is neither a column nor a key of any configuration.
        """
        self._check_names(rows)
        kept = self._sorted([row for row in rows if self._keeps(row)])
        if not self.columns:
            return [kept_row.row for kept_row in kept]
        return [
            replace(r.row, columns={name: self._cell(r, name) for name in self.columns})
            for r in kept
        ]

    def values(self, row: RowMembers, name: str) -> Sequence[Any]:
        """The values of a name in a row; several where its runs differ, each one once."""
        if (column := self.column(name)) is not None:
            value = getattr(row.row, column)
            return value if isinstance(value, tuple) else (value,)
        return distinct(m.value(name, self.of_runs) for m in row.members)

    def column(self, name: str) -> str | None:
        """The field of the row that a name stands for; None where there is none."""
        field = ESTIMATE if name == self.metric else ALIASES.get(name, name)
        return field if field in columns_of(self.row) and name != ESTIMATE else None

    def names(self, rows: Iterable[RowMembers]) -> list[str]:
        """Every name that conditions, `sort` and `columns` may use: columns, measures, then keys."""
        rows = list(rows)
        columns = [self.metric if n == ESTIMATE else n for n in columns_of(self.row)]
        columns += [name for name in self.of_runs if name not in columns]
        keys = sorted({key for settings in different_settings(rows) for key in settings})
        names = sorted({name for row in rows for m in row.members for name in m.measure_names()})
        taken = {*columns, *keys, ESTIMATE, *ALIASES}
        measures = [f"{MEASURE}{name}" if name in taken else name for name in names]
        return [*columns, *measures, *keys]

    def unmatched(self, rows: Sequence[RowMembers]) -> Iterator[str]:
        """For each `=` that no row fulfils, the values that there are, as a sentence."""
        for condition in self.conditions:
            if condition.operator == "=":
                values = distinct(v for row in rows for v in self.values(row, condition.name))
                present = [setting_text(v) for v in values if not is_missing(v)]
                if present and not condition.holds(values):
                    listed = join_first_names(sorted(present), MOST_NEAR)
                    yield f"{condition.name} is never {condition.value}; it is {listed}"

    @property
    def of_runs(self) -> tuple[str, ...]:
        """The columns of runs that may be asked of the rows."""
        return columns_of(self.run) if self.run else ()

    def _keeps(self, row: RowMembers) -> bool:
        of_members = []
        for condition in self.conditions:
            if self.column(condition.name) is None:
                of_members.append(condition)
            elif not condition.holds(self.values(row, condition.name)):
                return False
        # One run must fulfil all of them: an experiment with ppo and with a run of seed 3 of dqn
        # has no run of ppo with seed 3.
        return not of_members or any(
            all(c.holds([member.value(c.name, self.of_runs)]) for c in of_members)
            for member in row.members
        )

    def _sorted(self, rows: list[RowMembers]) -> list[RowMembers]:
        """The rows in order; rows without a value come last in both directions."""
        if self.sort is None:
            return rows
        name, down = self.sort.removeprefix("-"), self.sort.startswith("-")
        keyed = [(row, self._sort_key(row, name)) for row in rows]
        present = [(row, key) for row, key in keyed if key is not None]
        ordered = sorted(present, key=lambda pair: pair[1], reverse=down)
        return [row for row, _ in ordered] + [row for row, key in keyed if key is None]

    def _sort_key(self, row: RowMembers, name: str) -> Any:
        """The lowest value of a row, as a key; None where it has none."""
        keys = [order_key(v) for v in self.values(row, name) if not is_missing(v)]
        return min(keys, default=None)

    def _cell(self, row: RowMembers, name: str) -> Any:
        """The value of a name; of a row that stands for runs, the list of their values."""
        if (column := self.column(name)) is not None:
            return getattr(row.row, column)
        values = [value for value in self.values(row, name) if value is not None]
        return values if self.run else next(iter(values), None)

    def _check_names(self, rows: Sequence[RowMembers]) -> None:
        requested = [(c.name, "--where") for c in self.conditions]
        requested += [(self.sort.removeprefix("-"), "--sort")] if self.sort is not None else []
        requested += [(name, "--columns") for name in self.columns]
        unknown = [(name, option) for name, option in requested if self.column(name) is None]
        if not unknown:
            return
        names = self.names(rows)
        for name, option in unknown:
            # Without any run, nothing is known of the keys but their first words.
            if name not in names and (rows or name.split(".")[0] not in FIRST_WORDS):
                raise unknown_name(name, names, option, self.command)
        for condition in self.conditions:
            if self.column(condition.name) is None:
                values = [v for row in rows for v in self.values(row, condition.name)]
                present = [value for value in values if value is not None]
                condition.check_kind(numbers=not present or any(map(is_number, present)))


def check_kinds(selection: RowSelection) -> None:
    """Refuse conditions that compare a column of text with `<` or `>`.

    Raises:
        ConfigError: A condition does so.
    """
    for condition in selection.conditions:
        if (column := selection.column(condition.name)) is not None:
            condition.check_kind(numbers=column in selection.row.number_columns)


def columns_of(row: type[ListingRow]) -> tuple[str, ...]:
    """The columns of a class of rows, as fields."""
    return (*row.text_columns, *row.number_columns)


def different_settings(rows: Iterable[RowMembers]) -> list[Settings]:
    """The settings of all members, those of runs of one configuration once."""
    every = (member.settings() for row in rows for member in row.members)
    return list({id(settings): settings for settings in every}.values())


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of the first appearance; lists are values, too."""
    seen: dict[str, Any] = {}
    for value in values:
        seen.setdefault(repr(value), value)
    return list(seen.values())


def unknown_name(name: str, names: Sequence[str], option: str, command: str) -> ConfigError:
    """The error about a name that is neither a column nor a key; it lists the nearest names."""
    last = name.rpartition(".")[2]
    same_end = [full_name for full_name in names if full_name.rpartition(".")[2] == last]
    close = get_close_matches(name, names, MOST_NEAR, cutoff=0.4)
    near = list(dict.fromkeys([*same_end, *close]))[:MOST_NEAR]
    listed = f" (near it: {', '.join(near)})" if near else ""
    meant = f"; did you mean '{same_end[0]}'?" if same_end else did_you_mean(name, names)
    return ConfigError(
        f"{option}: there is no column {name!r}{meant}{listed}; for all names: {command}",
        code="unknown_value",
        key=option,
        allowed=near,
        command=command,
    )
