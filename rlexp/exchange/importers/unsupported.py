"""Formats of other tools that cannot be imported, with what to do instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlexp.exchange.importers.sources import SourceFile

AS_TABLE = "rlexp import csv FILE.csv --column step=COLUMN --column return=COLUMN"


@dataclass(frozen=True, slots=True)
class UnsupportedFormat:
    """A format: how its files are recognised, its name, and what to do instead."""

    has: Callable[[SourceFile], bool]
    name: str
    instead: str


def _ends_with(*endings: str) -> Callable[[SourceFile], bool]:
    return lambda file: file.last.lower().endswith(endings)


def _lies_in(folder: str) -> Callable[[SourceFile], bool]:
    return lambda file: folder in file.name.split("/")[:-1]


def _is_run_of_mlflow(file: SourceFile) -> bool:
    # MLflow's file store has EXPERIMENT/RUN/meta.yaml beside the folders metrics and params.
    return file.last == "meta.yaml" and b"artifact_uri" in file.begins(4096)


FORMATS = (
    UnsupportedFormat(
        _ends_with(".wandb"),
        "W&B's folder",
        "write the history of the runs with wandb.Api().run(PATH).history().to_csv(FILE), and "
        f"import it with {AS_TABLE}",
    ),
    UnsupportedFormat(
        _is_run_of_mlflow,
        "the file store of MLflow (mlruns)",
        "MLflow turns it into a database: mlflow migrate-filestore --source FOLDER --target "
        "sqlite:///mlflow.db; then give rlexp import mlflow mlflow.db",
    ),
    UnsupportedFormat(
        _lies_in(".aim"),
        "Aim's folder",
        f"write the metrics as a table with aim.Repo(FOLDER), and import it with {AS_TABLE}",
    ),
    UnsupportedFormat(
        _ends_with(".parquet", ".feather"),
        "a Parquet or Feather file",
        f"write it as a table with pandas.read_parquet(FILE).to_csv(TABLE), and give {AS_TABLE}",
    ),
    UnsupportedFormat(
        _ends_with(".pkl", ".pickle"),
        "a pickle, which executes code when it is opened,",
        f"write its numbers as a table, and import it with {AS_TABLE}",
    ),
    UnsupportedFormat(
        _ends_with(".xls", ".xlsx", ".ods"),
        "a spreadsheet",
        f"save it as CSV, and import it with {AS_TABLE}",
    ),
)
"""Every unsupported format that is recognised, in the order in which they are tried."""


def unsupported_format(files: Sequence[SourceFile]) -> str | None:
    """What to do instead of importing some files; None if their format is unknown."""
    for unsupported in FORMATS:
        if any(map(unsupported.has, files)):
            return f"{unsupported.name} cannot be imported: {unsupported.instead}"
    return None
