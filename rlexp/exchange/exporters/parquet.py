"""Export of tables as Parquet, written by pyarrow or duckdb, whichever is installed."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlexp.errors import ConfigError
from rlexp.exchange.exporters.tables import CellValue, Sheet
from rlexp.installation_way import install_command

WRITERS = ("pyarrow", "duckdb")
"""Packages that write Parquet, the preferred one first."""


def parquet_package() -> str:
    """The package that writes Parquet.

    Raises:
        ConfigError: No such package is installed; the message names one.
    """
    for name in WRITERS:
        if find_spec(name) is not None:
            return name
    raise ConfigError.missing_package(
        "writing Parquet needs pyarrow or duckdb; export csv, or install one of them",
        install_command("parquet"),
    )


def write_parquet(sheet: Sheet, path: Path, package: str) -> None:
    """Write a table.

    Args:
        sheet: The table; characters that are not valid Unicode become question marks.
        path: The file, in an existing folder.
        package: One of `WRITERS`.

    Raises:
        OSError: The file cannot be written.
    """
    columns = [_column(sheet.rows, k) for k in range(len(sheet.columns))]
    {"pyarrow": _by_pyarrow, "duckdb": _by_duckdb}[package](sheet, columns, path)


def _column(rows: Sequence[tuple[CellValue, ...]], position: int) -> list[CellValue]:
    values = (row[position] for row in rows)
    return [v.encode(errors="replace").decode() if isinstance(v, str) else v for v in values]


def _by_pyarrow(sheet: Sheet, columns: Sequence[list[CellValue]], path: Path) -> None:
    arrow: Any = import_module("pyarrow")
    kinds = {
        "text": arrow.string(),
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "boolean": arrow.bool_(),
    }
    arrays = [
        arrow.array(values, type=kinds[kind])
        for values, (_, kind) in zip(columns, sheet.columns, strict=True)
    ]
    table = arrow.Table.from_arrays(arrays, names=sheet.titles)
    import_module("pyarrow.parquet").write_table(table, str(path))


def _by_duckdb(sheet: Sheet, columns: Sequence[list[CellValue]], path: Path) -> None:
    duckdb: Any = import_module("duckdb")
    kinds = {"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
    declared = ", ".join(f'"{name}" {kinds[kind]}' for name, kind in sheet.columns)
    # The path becomes part of the SQL text, in which a quote would end the string.
    quoted = str(path).replace("'", "''")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE sheet ({declared})")
        if sheet.rows:
            placeholders = ", ".join("?" * len(sheet.columns))
            connection.executemany(
                f"INSERT INTO sheet VALUES ({placeholders})",  # noqa: S608  # question marks only
                [list(row) for row in zip(*columns, strict=True)],
            )
        connection.execute(f"COPY sheet TO '{quoted}' (FORMAT PARQUET)")
