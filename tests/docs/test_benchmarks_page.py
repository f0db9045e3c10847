"""The page about benchmarks: what it shows can be run, and its scores are those that are kept."""

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from baselines import BEGIN, COLUMNS, END, KEPT, PAGE, markdown

from rlexp.config.compose import compose
from rlexp.config.sources import packaged_root

ROOT = Path(__file__).parents[2]
TEXT = PAGE.read_text()
NAMES = sorted(path.stem for path in KEPT.glob("*.json"))
LARGEST = 300_000
"""Bytes of what is kept of a benchmark."""


def test_there_are_scores_of_the_small_one() -> None:
    """So that the tests below have something to read; they come with the package."""
    assert ["classic_control"] == NAMES
    assert KEPT == packaged_root() / "conf" / "benchmark" / "baselines"


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_means_of_the_episodes(name: str) -> None:
    """Every run that has a score, and no other, with a hundred episodes each."""
    episodes: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    with (KEPT / f"{name}.csv").open(newline="") as file:
        rows = csv.DictReader(file)
        assert tuple(rows.fieldnames or ()) == COLUMNS
        for row in rows:
            episodes[row["label"], row["task"], row["seed"], row["step"]].append(
                float(row["return"])
            )
    plain = json.loads((KEPT / f"{name}.json").read_text())
    scores = {
        (cell["label"], cell["task"], seed, str(cell["steps"])): score
        for cell in plain["cells"]
        for seed, score in cell["scores"].items()
    }
    assert scores == pytest.approx(
        {key: fmean(values) for key, values in episodes.items()}, abs=1e-3
    )
    assert {100} == {len(values) for values in episodes.values()}


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_that_of_the_kept_scores(name: str) -> None:
    """As `benchmarks/baselines.py` writes it."""
    shown = TEXT.partition(BEGIN.format(name=name))[2].partition(END)[0]
    assert shown == markdown(json.loads((KEPT / f"{name}.json").read_text())["cells"])


@pytest.mark.parametrize("name", NAMES)
def test_kept_scores_are_small_and_name_no_machine(name: str) -> None:
    """Neither hosts nor folders."""
    files = [KEPT / f"{name}.{ending}" for ending in ("csv", "json")]
    assert sum(file.stat().st_size for file in files) < LARGEST
    plain = json.loads(files[1].read_text())
    assert {"processor", "cores"} == set(plain["machine"])
    assert "/" not in "".join(plain["command"])


@pytest.mark.parametrize("name", NAMES)
def test_kept_scores_are_of_the_benchmark_as_it_is(name: str) -> None:
    """Its cells, and their steps."""
    plain = json.loads((KEPT / f"{name}.json").read_text())
    found = {
        (one.plain["environment"]["id"], dict(one.choices)["algorithm"]): one.plain["budget"]
        for one in compose([f"+benchmark={name}"], ROOT)
    }
    assert {key: budget["steps"] for key, budget in found.items()} == {
        (cell["task"], cell["label"]): cell["steps"] for cell in plain["cells"]
    }


def test_the_matrix_that_it_shows_composes(tmp_path: Path) -> None:
    """Under the name that a study gives it."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "conf" / "benchmark" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(block)
    assert [20_000, 20_000] == [
        one.plain["budget"]["steps"] for one in compose(["+benchmark=mine"], tmp_path)
    ]


def test_every_matrix_is_named(tmp_path: Path) -> None:
    """In the table at the top."""
    matrices = [
        path.stem
        for path in (ROOT / "conf" / "benchmark").glob("*.yaml")
        if "\ntasks:" in path.read_text()
    ]
    assert set() == {name for name in matrices if f"| `{name}` |" not in TEXT}
