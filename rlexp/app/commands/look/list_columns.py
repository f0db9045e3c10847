"""`rlexp ls --list-columns`: the names by which a listing is selected, sorted and shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.app.commands.look.list_runs import (
    ListRequest,
    kind_of,
    listed_rows,
    selection_of,
    surveyed,
)
from rlexp.app.reading.headline_aggregate import read_headline_aggregate
from rlexp.app.reading.row_selection import different_settings, distinct
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.store.annotations import Annotations

MOST_VALUES = 5
"""Most values of a key that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingColumn:
    """A name that `--where`, `--sort` and `--columns` take.

    Attributes:
        name: The name: a column, a measure, or a key of the configuration.
        is_key: Whether it is a key of the configuration.
        values: The first different values of a key; empty for a column or a measure.
        total: The number of different values of a key; null for a column or a measure.
    """

    name: str
    is_key: bool
    values: tuple[Any, ...]
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingColumns:
    """The names by which a listing is selected, sorted and shown.

    Attributes:
        experiment: The experiment whose runs the listing has; null for all experiments.
        rows: The names: columns first, then measures, then keys in alphabetical order.
    """

    schema: ClassVar[Schema] = Schema("listing-columns")

    experiment: str | None
    rows: tuple[ListingColumn, ...]


def list_columns(request: ListRequest, workspace: Workspace) -> ListingColumns:
    """List the columns and keys of a listing; its conditions, order and columns are ignored.

    Raises:
        RlexpError: There is no such experiment.
    """
    leading = read_headline_aggregate(workspace.folder, workspace.allowed)
    request = ListRequest(request.experiment, group=request.group)
    kind, selection = kind_of(request), selection_of(request, leading.name)
    scans = surveyed(request, workspace)
    rows = [row for scan in scans for row in listed_rows(scan, kind, leading, Annotations())]
    different = different_settings(rows)

    def described() -> Iterator[ListingColumn]:
        for name in selection.names(rows):
            holders = [s for s in different if name in s]
            if selection.column(name) is not None or name in selection.of_runs or not holders:
                yield ListingColumn(name=name, is_key=False, values=(), total=None)
            else:
                values = distinct(settings[name] for settings in holders)
                first = tuple(values[:MOST_VALUES])
                yield ListingColumn(name=name, is_key=True, values=first, total=len(values))

    return ListingColumns(experiment=request.experiment, rows=tuple(described()))
