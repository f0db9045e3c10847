"""Verdicts on the pages: they are those that are kept, of the runs that their commands ask for."""

import json
import re
import shlex
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from in_full import long
from verdicts import DOCS, KEPT, page_of, row_of, verdict

from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.store.layout import Layout

NAMES = sorted(path.stem for path in KEPT.glob("*.json"))
COMMAND = re.compile(r"`(rlexp run [^`]+)`")
DEFINED_OTHERWISE = {"constraints_as_terminations", "jump_start", "snapshots"}
"""Whose ids say more: the policy of another run, or, since they were made, an order of components."""
LARGEST = 10_000
"""Bytes of what is kept of a comparison."""


def kept(name: str) -> dict[str, Any]:
    """What is kept of a comparison."""
    plain: dict[str, Any] = json.loads((KEPT / f"{name}.json").read_text())
    return plain


def row(name: str) -> re.Match[str]:
    """The row of the page that is about a benchmark."""
    (found,) = row_of(name).finditer(page_of(name).read_text())
    return found


def test_every_verdict_on_a_page_is_kept() -> None:
    """And nothing is kept that no page shows."""
    rows = re.compile(r"^\|.*`rlexp run \+benchmark=(\w+) .*then `rlexp compare", re.MULTILINE)
    shown = [name for page in DOCS.glob("*.md") for name in rows.findall(page.read_text())]
    assert sorted(name for name in shown if row(name)[2] != "not measured yet") == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_what_is_kept(name: str) -> None:
    """As `benchmarks/verdicts.py` writes it."""
    assert row(name)[2] == verdict(kept(name)["pairs"])


@pytest.mark.parametrize("name", NAMES)
def test_differences_are_those_of_the_kept_scores(name: str) -> None:
    """First mean less second, with five seeds on both sides, the same ones."""
    plain = kept(name)
    scores = {cell["label"]: cell["scores"] for cell in plain["cells"]}
    assert {tuple("01234")} == {tuple(sorted(own)) for own in scores.values()}
    assert len(plain["pairs"]) == len(scores) * (len(scores) - 1) // 2
    for pair in plain["pairs"]:
        first, second = (fmean(scores[pair[side]].values()) for side in ("first", "second"))
        assert first - second == pytest.approx(pair["difference"]["estimate"])
        decided = pair["adjusted"] <= 1 - pair["difference"]["level"]
        assert decided != (pair["verdict"] == "undecided")


@long
@pytest.mark.parametrize("name", [name for name in NAMES if name not in DEFINED_OTHERWISE])
def test_its_command_asks_for_the_runs_that_are_kept(name: str, tmp_path: Path) -> None:
    """By their ids: no default has changed since that would make others of them."""
    (command,) = COMMAND.findall(row(name)[1])
    request = read_request(
        shlex.split(command)[2:], Workspace(tmp_path, Layout(tmp_path / "runs"))
    )
    ids = {one for cell in kept(name)["cells"] for one in cell["runs"].values()}
    assert {spec.id for spec in request.specs()} == ids


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_small_and_names_no_machine(name: str) -> None:
    """Neither hosts nor folders."""
    assert (KEPT / f"{name}.json").stat().st_size < LARGEST
    assert {"processor", "cores"} == set(kept(name)["machine"])
    assert "/" not in "".join(kept(name)["command"])


@pytest.mark.skipif("constraints_as_terminations" not in NAMES, reason="not measured yet")
def test_what_safety_measured_is_told() -> None:
    """The page's numbers about constraints are means over the final evaluations of five runs."""
    text = " ".join((DOCS / "components.md").read_text().split())
    for cell in kept("constraints_as_terminations")["cells"]:
        shares, costs = (cell["measures"][name] for name in ("violations", "cost"))
        assert f"{fmean(shares):.2f}" in text
        assert f"{min(shares):.2f} to {max(shares):.2f}" in text
        assert f"{fmean(costs):.0f}" in text
