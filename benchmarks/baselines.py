"""Keeps the scores of a benchmark that was trained, in one experiment or in several.

`python benchmarks/baselines.py classic_control runs/ppo_and_a2c runs/dqn` writes
`conf/benchmark/baselines/classic_control.csv`, every episode of every final policy, which `rlexp
import csv` reads; `classic_control.json`, the score of every seed, and where it comes from; and the
table of `docs/reference/benchmarks.md`. Cells of which the experiments hold no score stay as they
were stored before.
"""

import argparse
import csv
import json
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from rlexp import load
from rlexp.app.commands.exchange.load import Records
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.summary import read_entries, summarise
from rlexp.app.results import to_json
from rlexp.config.compose import compose
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import ExperimentPaths

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "conf" / "benchmark" / "baselines"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
BEGIN, END = "<!-- scores of {name} -->\n", "<!-- end -->\n"
COLUMNS = ("label", "task", "seed", "step", "return", "final")
OF_AN_INTERVAL = ("estimate", "low", "high", "level", "method")
Cells = list[dict[str, Any]]
Episodes = list[list[str]]
PACKAGES = ("rlexp", "gymnasium", "numpy", "stable_baselines3", "torch")


def completed(records: Records) -> list[tuple[str, str, RunRecord]]:
    """Label, task and record of every completed run."""
    rows = zip(records.table, records.records, strict=True)
    return [(str(r["label"]), str(r["task"]), s) for r, s in rows if s.state is State.COMPLETED]


def rows_of_episodes(runs: Iterable[tuple[str, str, RunRecord]]) -> list[list[str]]:
    """Every episode of the final policies as in `COLUMNS`; returns are rounded to three decimals."""
    rows: list[list[str]] = []
    for label, task, record in runs:
        start = [label, task, str(record.spec.seed), str(record.spec.budget["steps"])]
        final = record.final
        assert final is not None
        rows += [[*start, f"{v:.3f}".rstrip("0").rstrip("."), "1"] for v in final.returns]
    return rows


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


def trained_in(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[list[str]]]:
    """Where the scores of an experiment come from, its cells with a score, and their episodes."""
    records = load(folder)
    runs = completed(records)
    cells = [cell for cell in cells_of(folder, records) if cell["scores"]]
    ended = max((r.ended for _, _, r in runs if r.ended is not None), default=0.0)
    source = {
        "date": datetime.fromtimestamp(ended, UTC).date().isoformat(),
        **provenance(folder),
        "cells": [[cell["label"], cell["task"]] for cell in cells],
    }
    return source, cells, rows_of_episodes(runs)


def stored_before(name: str, trained: Container[tuple[str, str]]) -> tuple[Cells, Cells, Episodes]:
    """What is stored of the cells that were not trained again: sources, cells and episodes."""
    if not (KEPT / f"{name}.json").exists():
        return [], [], []
    document = json.loads((KEPT / f"{name}.json").read_text())
    sources = [
        {**source, "cells": [cell for cell in source["cells"] if tuple(cell) not in trained]}
        for source in document["sources"]
    ]
    cells = [c for c in document["cells"] if (c["label"], c["task"]) not in trained]
    with (KEPT / f"{name}.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    episodes = [row for row in rows if (row[0], row[1]) not in trained]
    return [source for source in sources if source["cells"]], cells, episodes


def order_of(name: str) -> dict[tuple[str, str], int]:
    """The position of each cell, by label and task, in the definition of a benchmark."""
    composed = compose([f"+benchmark={name}"], ROOT)
    cells = [(dict(c.choices)["algorithm"], c.plain["environment"]["id"]) for c in composed]
    return {cell: position for position, cell in enumerate(cells)}


def main() -> None:
    """Write the table of episodes, the JSON document and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark", help="name of the benchmark")
    parser.add_argument("experiments", type=Path, nargs="+", help="runs/NAME")
    arguments = parser.parse_args()
    name: str = arguments.benchmark
    KEPT.mkdir(exist_ok=True)
    sources, cells, episodes = [], [], []
    for folder in arguments.experiments:
        source, of_folder, rows = trained_in(folder.absolute())
        if not of_folder:
            parser.error(f"{folder} holds no score")
        sources.append(source)
        cells += of_folder
        episodes += rows
    trained = {(cell["label"], cell["task"]) for cell in cells}
    if len(trained) < len(cells):
        parser.error("two experiments hold scores of the same cell")
    before = stored_before(name, trained)
    order = order_of(name)
    cells = sorted([*before[1], *cells], key=lambda c: order[c["label"], c["task"]])
    episodes = sorted([*before[2], *episodes], key=lambda row: order[row[0], row[1]])
    write(name, [*before[0], *sources], cells, episodes)
    print(markdown(cells))


def write(name: str, sources: Cells, cells: Cells, episodes: Episodes) -> None:
    """Write what is stored of a benchmark, and its table on the page."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *episodes])
    (KEPT / f"{name}.csv").write_text(text.getvalue())
    document = {"schema": 2, "sources": sources, "cells": cells}
    (KEPT / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    begin = BEGIN.format(name=name)
    head, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{head}{begin}{markdown(cells)}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
