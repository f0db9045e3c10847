"""Stores the verdict of a finished comparison: `python benchmarks/verdicts.py runs/NAME [--margin M]`.

Writes `conf/benchmark/verdicts/NAME.json`, where NAME is the benchmark that was run: the score of
every seed with the id of its run, every pair as `rlexp compare` decides it, and where it comes from.
Then it fills in the verdicts of the tables of the pages of `docs/`, in rows that name the benchmark.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from baselines import cells_of, completed, provenance

from rlexp import load
from rlexp.app.commands.exchange.load import Records
from rlexp.records.run import RunRecord

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "conf" / "benchmark" / "verdicts"
DOCS = ROOT / "docs"
BENCHMARK = "+benchmark="
OF_A_DIFFERENCE = ("estimate", "low", "high", "level", "method", "seed")
CONTEXT = "context/"


def row_of(name: str) -> re.Pattern[str]:
    """The table row of a benchmark; its last column is the verdict."""
    return re.compile(rf"^(\|.*\{BENCHMARK}{name} .*\| )([^|]*)( \|)$", re.MULTILINE)


def page_of(name: str) -> Path:
    """The page that shows the verdict of a benchmark."""
    (page,) = (path for path in DOCS.rglob("*.md") if row_of(name).search(path.read_text()))
    return page


def comparison(folder: Path, margin: str | None) -> list[str]:
    """The command that decides, as its words."""
    return ["rlexp", "compare", folder.name, *(() if margin is None else ("--margin", margin))]


def compared(folder: Path, margin: str | None) -> list[dict[str, Any]]:
    """Every pair with the decision of `rlexp compare`."""
    done = subprocess.run(
        [sys.executable, "-m", *comparison(folder, margin), "--json"],
        cwd=folder.parents[1],
        env={**os.environ, "RLEXP_RUNS": str(folder.parent)},
        check=True,
        capture_output=True,
        text=True,
    )
    blocks = [block for part in json.loads(done.stdout)["parts"] for block in part["blocks"]]
    (table,) = (block for block in blocks if block.get("name") == "pairs")
    titles = [column["title"] for column in table["columns"]]
    return [pair(dict(zip(titles, row, strict=True)), table["note"]) for row in table["rows"]]


def pair(row: Mapping[str, Any], note: str) -> dict[str, Any]:
    """One row of the table of pairs."""
    return {
        "first": row["first"],
        "second": row["second"],
        # Where lower is better, this is by how much the first label is better.
        "difference": {key: row["difference"][key] for key in OF_A_DIFFERENCE},
        "p": row["permutation p"],
        "adjusted": row["adjusted p"],
        "verdict": row["verdict"],
        "tests": note,
    }


def runs_of(records: Records, label: str, task: str) -> Iterable[RunRecord]:
    """The completed runs of a label on a task, in order of their seeds."""
    runs = (record for name, of, record in completed(records) if (name, of) == (label, task))
    return sorted(runs, key=lambda record: record.spec.seed)


def cell(cell_of_page: Mapping[str, Any], records: Records) -> dict[str, Any]:
    """A cell with its scores, its runs and their further measures."""
    runs = list(runs_of(records, cell_of_page["label"], cell_of_page["task"]))
    measures: dict[str, list[float]] = {}
    for run in runs:
        assert run.final is not None
        for name, values in (run.final.measures or {}).items():
            if not name.startswith(CONTEXT):
                measures.setdefault(name, []).append(round(fmean(values), 4))
    return {
        **cell_of_page,
        "runs": {str(run.spec.seed): run.spec.id for run in runs},
        **({"measures": measures} if measures else {}),
    }


def number(value: float) -> str:
    """A number in the format of the pages; three decimals if it is small."""
    digits = 1 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}".replace("-", "−")


def interval(difference: Mapping[str, Any]) -> str:
    """The interval of a difference; there is none where all runs of each label are equal."""
    low, high = difference["low"], difference["high"]
    return "[—]" if low is None else f"[{number(low)}, {number(high)}]"


def description(pair: Mapping[str, Any]) -> str:
    """A pair in a few words."""
    difference = pair["difference"]
    return (
        f"*{pair['verdict']}*: `{pair['first']}` less `{pair['second']}` "
        f"{number(difference['estimate'])} {interval(difference)}, p = {pair['adjusted']:.3f}"
    )


def verdict(pairs: Iterable[Mapping[str, Any]]) -> str:
    """The text of the last column of the table."""
    return "; ".join(description(pair) for pair in pairs)


def write_page(name: str, pairs: Iterable[Mapping[str, Any]]) -> None:
    """Write the verdict into the page, if the benchmark has a row there."""
    page = page_of(name)
    page.write_text(
        row_of(name).sub(
            lambda row: f"{row[1]}{verdict(pairs)}{row[3]}",
            page.read_text(),
        )
    )


def main() -> None:
    """Write the JSON document and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", type=Path, help="runs/NAME")
    parser.add_argument(
        "--margin", help="the smallest difference that matters, as of rlexp compare"
    )
    arguments = parser.parse_args()
    folder: Path = arguments.experiment.absolute()
    records = load(folder)
    source = provenance(folder)
    (name,) = (w.removeprefix(BENCHMARK) for w in source["command"] if w.startswith(BENCHMARK))
    dates = [record.ended for *_, record in completed(records) if record.ended is not None]
    pairs = compared(folder, arguments.margin)
    document = {
        "schema": 2,
        "date": datetime.fromtimestamp(max(dates), UTC).date().isoformat(),
        **source,
        "comparison": comparison(folder, arguments.margin),
        "cells": [cell(cell_of_page, records) for cell_of_page in cells_of(folder, records)],
        "pairs": pairs,
    }
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    write_page(name, pairs)
    print(verdict(pairs))


if __name__ == "__main__":
    main()
