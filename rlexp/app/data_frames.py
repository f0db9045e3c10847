"""Rows of results as data frames of pandas, an optional package."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlexp.errors import ConfigError
from rlexp.installation_way import install_command

if TYPE_CHECKING:
    from pandas import DataFrame

DataRow = Mapping[str, Any]
"""The cells of a row by column."""


def data_frame(
    rows: Iterable[DataRow], columns: Sequence[str] = (), *, mixed: Collection[str] = ()
) -> "DataFrame":
    """A data frame of rows; a row without a column has an empty cell there.

    Args:
        rows: The rows.
        columns: The first columns, which exist even if there is no row. Other columns follow in
            the order in which rows have them.
        mixed: Columns whose values have different types, which they keep.

    Raises:
        ConfigError: pandas is not installed.
    """
    try:
        from pandas import DataFrame, Series
    except ImportError as error:
        raise ConfigError.missing_package(
            "a data frame needs pandas, which is not installed; to install it",
            install_command("pandas"),
        ) from error
    kept = list(rows)
    names = dict.fromkeys([*columns, *(name for row in kept for name in row)])
    cells = {name: [row.get(name) for row in kept] for name in names}
    # In a column of numbers, an integer beside a fraction would become a fraction.
    typed_cells = {name: Series(cells[name], dtype=object) for name in names if name in mixed}
    return DataFrame({**cells, **typed_cells})
