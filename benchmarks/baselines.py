"""Keeps the scores of a benchmark that was trained: `python benchmarks/baselines.py runs/classic_control`.

Writes `conf/benchmark/baselines/NAME.csv`, every episode of every final policy, which `rlexp import
csv` reads; `NAME.json`, the score of every seed, and where it comes from; and the table of
`docs/benchmarks.md`. Cells that have no score yet are left out, and named there.
"""

import argparse
import csv
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from rlexp import load
from rlexp.app.commands.load import Records
from rlexp.app.reading.leading import Leading
from rlexp.app.reading.summary import read_entries, summarise
from rlexp.app.results import to_json
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import ExperimentPaths

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "conf" / "benchmark" / "baselines"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- scores of {name} -->\n", "<!-- end -->\n"
COLUMNS = ("label", "task", "seed", "step", "return", "final")
OF_AN_INTERVAL = ("estimate", "low", "high", "level", "method")
PACKAGES = ("rlexp", "gymnasium", "numpy", "stable_baselines3", "torch")


def completed(found: Records) -> list[tuple[str, str, RunRecord]]:
    """Label, task and record of every run that has a score."""
    rows = zip(found.table, found.records, strict=True)
    return [(str(r["label"]), str(r["task"]), s) for r, s in rows if s.state is State.COMPLETED]


def table_of_episodes(runs: Iterable[tuple[str, str, RunRecord]]) -> str:
    """Every episode of the final policies as CSV; returns are rounded to thousandths."""
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for label, task, record in runs:
        steps = record.spec.budget["steps"]
        final = record.final
        assert final is not None
        rows.writerows(
            (label, task, record.spec.seed, steps, f"{value:.3f}".rstrip("0").rstrip("."), 1)
            for value in final.returns
        )
    return text.getvalue()


def provenance(folder: Path) -> dict[str, Any]:
    """Where the runs come from, but for names of machines and folders."""
    (first, *_) = sorted(folder.glob("*/attempts/1/provenance.json"))
    plain = json.loads(first.read_text())
    code, machine = plain["code"], plain["machine"]
    own = {name.replace("-", "_").lower(): v for name, v in plain["packages"].items()}
    return {
        "command": plain["command"],
        "code": {
            "commit": code["commit"],
            "changed": sorted([*code["dirty"], *code["untracked"]]),
        },
        "python": plain["python"],
        "packages": {name: own[name] for name in PACKAGES if name in own},
        "machine": {key: machine[key] for key in ("processor", "cores")},
    }


def cells_of(folder: Path, found: Records) -> list[dict[str, Any]]:
    """Every cell as `rlexp show` tells it, and its steps."""
    paths = ExperimentPaths(folder)
    entries = read_entries(paths, found.experiment, Phase.TEST)
    cells = to_json(summarise(paths, found.experiment, Phase.TEST, entries, Leading()).cells)
    steps = {(c.label, c.task): c.budget.steps for c in found.experiment.configurations}
    kept = ("label", "task", "score", "scores", "planned")
    return [
        {
            **{key: cell[key] for key in kept},
            "steps": steps[cell["label"], cell["task"]],
            "iqm": {key: (cell["estimate"] or {}).get(key) for key in OF_AN_INTERVAL},
        }
        for cell in cells
    ]


def markdown(cells: Iterable[Mapping[str, Any]]) -> str:
    """The table of the page."""
    lines = ["| task | steps | algorithm | n | IQM | 95 % interval | scores of the seeds |"]
    lines.append("|---|---|---|---|---|---|---|")
    for cell in cells:
        iqm, scores = cell["iqm"], cell["scores"]
        interval = "—" if iqm["low"] is None else f"{iqm['low']:,.1f} to {iqm['high']:,.1f}"
        told = ", ".join(f"{score:,.1f}" for score in scores.values())
        estimate = "—" if iqm["estimate"] is None else f"{iqm['estimate']:,.1f}"
        lines.append(
            f"| {cell['task']} | {cell['steps']:,} | {cell['label']} | {len(scores)} | {estimate} "
            f"| {interval} | {told or 'not trained'} |"
        )
    return "\n".join(lines).replace("| -", "| −").replace(" -", " −") + "\n"


def main() -> None:
    """Write the three of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", type=Path, help="runs/NAME")
    folder: Path = parser.parse_args().experiment.absolute()
    found = load(folder)
    runs = completed(found)
    dates = [record.ended for _, _, record in runs if record.ended is not None]
    cells = cells_of(folder, found)
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{folder.name}.csv").write_text(table_of_episodes(runs))
    last = datetime.fromtimestamp(max(dates), UTC).date().isoformat()
    plain = {"schema": 1, "date": last, **provenance(folder), "cells": cells}
    (KEPT / f"{folder.name}.json").write_text(json.dumps(plain, indent=1) + "\n")
    begin = BEGIN.format(name=folder.name)
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}{markdown(cells)}{END}{rest.partition(END)[2]}")
    print(markdown(cells))


if __name__ == "__main__":
    main()
