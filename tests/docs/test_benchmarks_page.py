"""The page about benchmarks has the stored scores, and its commands work."""

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from baselines import BEGIN, COLUMNS, END, KEPT, PAGE, markdown

from rlexp.config.compose import compose
from rlexp.config.config_files import packaged_root

ROOT = Path(__file__).parents[2]
TEXT = PAGE.read_text()
NAMES = sorted(path.stem for path in KEPT.glob("*.json"))
LARGEST = 1_200_000
"""Bytes that the stored files of a benchmark may have."""


def test_the_small_benchmark_has_stored_scores() -> None:
    """The package has the stored scores that the other tests of this file need."""
    assert ["classic_control"] == NAMES
    assert KEPT == packaged_root() / "conf" / "benchmark" / "baselines"


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_means_of_the_episodes(name: str) -> None:
    """Each stored score is the mean of its hundred stored episodes."""
    episodes: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    with (KEPT / f"{name}.csv").open(newline="") as file:
        rows = csv.DictReader(file)
        assert tuple(rows.fieldnames or ()) == COLUMNS
        for row in rows:
            episodes[row["label"], row["task"], row["seed"], row["step"]].append(
                float(row["return"])
            )
    content = json.loads((KEPT / f"{name}.json").read_text())
    scores = {
        (cell["label"], cell["task"], seed, str(cell["steps"])): score
        for cell in content["cells"]
        for seed, score in cell["scores"].items()
    }
    assert scores == pytest.approx(
        {key: fmean(values) for key, values in episodes.items()}, abs=1e-3
    )
    assert {100} == {len(values) for values in episodes.values()}


@pytest.mark.parametrize("name", NAMES)
def test_the_table_equals_the_stored_scores(name: str) -> None:
    """The table on the page is the output of `benchmarks/baselines.py`."""
    shown = TEXT.partition(BEGIN.format(name=name))[2].partition(END)[0]
    assert shown == markdown(json.loads((KEPT / f"{name}.json").read_text())["cells"])


@pytest.mark.parametrize("name", NAMES)
def test_stored_scores_are_small_and_name_no_machine(name: str) -> None:
    """The files contain no host names and no folders."""
    files = [KEPT / f"{name}.{ending}" for ending in ("csv", "json")]
    assert sum(file.stat().st_size for file in files) < LARGEST
    content = json.loads(files[1].read_text())
    for source in content["sources"]:
        assert {"processor", "cores"} == set(source["machine"])
        assert "/" not in "".join(source["command"])


@pytest.mark.parametrize("name", NAMES)
def test_every_stored_cell_names_the_training_that_it_comes_from(name: str) -> None:
    """Each cell has exactly one source, which names a commit."""
    content = json.loads((KEPT / f"{name}.json").read_text())
    sourced = [tuple(cell) for source in content["sources"] for cell in source["cells"]]
    assert sorted(sourced) == sorted((cell["label"], cell["task"]) for cell in content["cells"])
    assert all(len(source["code"]["commit"]) == 40 for source in content["sources"])


@pytest.mark.parametrize("name", NAMES)
def test_stored_scores_match_the_present_benchmark(name: str) -> None:
    """The stored cells and their steps are those of the present definition."""
    content = json.loads((KEPT / f"{name}.json").read_text())
    budgets = {
        (composed.plain["environment"]["id"], dict(composed.choices)["algorithm"]): composed.plain[
            "budget"
        ]
        for composed in compose([f"+benchmark={name}"], ROOT)
    }
    assert {key: budget["steps"] for key, budget in budgets.items()} == {
        (cell["task"], cell["label"]): cell["steps"] for cell in content["cells"]
    }


def test_the_matrix_on_the_page_composes(tmp_path: Path) -> None:
    """The matrix on the page can be composed from a file of a workspace."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "conf" / "benchmark" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(block)
    assert [20_000, 20_000] == [
        composed.plain["budget"]["steps"] for composed in compose(["+benchmark=mine"], tmp_path)
    ]


def test_every_matrix_is_named() -> None:
    """The page has a table row for every benchmark with tasks."""
    matrices = [
        path.stem
        for path in (ROOT / "conf" / "benchmark").glob("*.yaml")
        if "\ntasks:" in path.read_text()
    ]
    assert set() == {name for name in matrices if f"| `{name}` |" not in TEXT}
