"""Keeps the scores of a benchmark that was trained: `python benchmarks/baselines.py runs/classic_control`.

Writes `conf/benchmark/baselines/NAME.csv`, every episode of every final policy, which `rlexp import
csv` reads; `NAME.json`, the score of every seed, and where it comes from; and the table of
`docs/reference/benchmarks.md`. Cells that have no score yet are left out, and named there.
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
from rlexp.app.commands.exchange.load import Records
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.summary import read_entries, summarise
from rlexp.app.results import to_json
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import ExperimentPaths

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "conf" / "benchmark" / "baselines"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
BEGIN, END = "<!-- scores of {name} -->\n", "<!-- end -->\n"
COLUMNS = ("label", "task", "seed", "step", "return", "final")
OF_AN_INTERVAL = ("estimate", "low", "high", "level", "method")
PACKAGES = ("rlexp", "gymnasium", "numpy", "stable_baselines3", "torch")


def completed(records: Records) -> list[tuple[str, str, RunRecord]]:
    """Label, task and record of every completed run."""
    rows = zip(records.table, records.records, strict=True)
    return [(str(r["label"]), str(r["task"]), s) for r, s in rows if s.state is State.COMPLETED]


def table_of_episodes(runs: Iterable[tuple[str, str, RunRecord]]) -> str:
    """Every episode of the final policies as CSV; returns are rounded to three decimals."""
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
    """The provenance of the runs, without names of machines and folders."""
    (first, *_) = sorted(folder.glob("*/attempts/1/provenance.json"))
    recorded = json.loads(first.read_text())
    code, machine = recorded["code"], recorded["machine"]
    versions = {name.replace("-", "_").lower(): v for name, v in recorded["packages"].items()}
    return {
        "command": recorded["command"],
        "code": {
            "commit": code["commit"],
            "changed": sorted([*code["dirty"], *code["untracked"]]),
        },
        "python": recorded["python"],
        "packages": {name: versions[name] for name in PACKAGES if name in versions},
        "machine": {key: machine[key] for key in ("processor", "cores")},
    }


def cells_of(folder: Path, records: Records) -> list[dict[str, Any]]:
    """Every cell as `rlexp show` shows it, with its steps."""
    paths = ExperimentPaths(folder)
    entries = read_entries(paths, records.experiment, Phase.TEST)
    cells = to_json(
        summarise(paths, records.experiment, Phase.TEST, entries, HeadlineAggregate()).cells
    )
    steps = {(c.label, c.task): c.budget.steps for c in records.experiment.configurations}
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
    """The Markdown table of the page."""
    lines = ["| task | steps | algorithm | n | IQM | 95 % interval | scores of the seeds |"]
    lines.append("|---|---|---|---|---|---|---|")
    for cell in cells:
        iqm, scores = cell["iqm"], cell["scores"]
        interval = "—" if iqm["low"] is None else f"{iqm['low']:,.1f} to {iqm['high']:,.1f}"
        score_list = ", ".join(f"{score:,.1f}" for score in scores.values())
        estimate = "—" if iqm["estimate"] is None else f"{iqm['estimate']:,.1f}"
        lines.append(
            f"| {cell['task']} | {cell['steps']:,} | {cell['label']} | {len(scores)} | {estimate} "
            f"| {interval} | {score_list or 'not trained'} |"
        )
    return "\n".join(lines).replace("| -", "| −").replace(" -", " −") + "\n"


def main() -> None:
    """Write the table of episodes, the JSON document and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", type=Path, help="runs/NAME")
    folder: Path = parser.parse_args().experiment.absolute()
    records = load(folder)
    runs = completed(records)
    dates = [record.ended for _, _, record in runs if record.ended is not None]
    cells = cells_of(folder, records)
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{folder.name}.csv").write_text(table_of_episodes(runs))
    last = datetime.fromtimestamp(max(dates), UTC).date().isoformat()
    document = {"schema": 1, "date": last, **provenance(folder), "cells": cells}
    (KEPT / f"{folder.name}.json").write_text(json.dumps(document, indent=1) + "\n")
    begin = BEGIN.format(name=folder.name)
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}{markdown(cells)}{END}{rest.partition(END)[2]}")
    print(markdown(cells))


if __name__ == "__main__":
    main()
