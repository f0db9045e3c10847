"""`rlexp plan` proposes a design that fits into the hours, with a command that works when pasted."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp

from rlexp.app.commands.train.plan import DECIDED, TEST_SEEDS
from rlexp.app.sweeps.design_table import SweepDesign, read_design_table
from rlexp.errors import ConfigError, RecordError

WORDS = (
    *("algorithm=ppo", "environment=cartpole", "algorithm.gamma=0.9,0.99", "budget.steps=100_000"),
    *("experiment=mine", "sweep.trials=7", "seeds.test=3", "executor.workers=1"),
)


@pytest.fixture(autouse=True)
def _nothing_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No earlier run or probe tells how fast this machine is."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))


def plan(folder: Path, hours: float, *words: str) -> dict[str, Any]:
    """The document of a plan without a probe."""
    arguments = ("plan", *(words or WORDS), "--hours", str(hours), "--no-probe", "--json")
    return rlexp(folder, *arguments).document("sweep-advice")


def test_the_proposal_fits_and_its_command_works(tmp_path: Path) -> None:
    """The proposed runs fit into the hours, and the command is accepted with these runs."""
    advice = plan(tmp_path, 10)
    proposal = advice["proposal"]
    assert proposal["runs"] <= advice["runs"]
    assert advice["seconds"] <= 10 * 3600 * 1.05
    (following,) = advice["next"]
    words = shlex.split(following["command"])
    assert ["rlexp", "sweep"] == words[:2]
    # The words that the proposal decides are there once.
    keys = [word.partition("=")[0] for word in words[2:]]
    assert len({*keys}) == len(keys)
    assert {"experiment", "algorithm.gamma", "seeds.test"} <= {*keys}
    outline = rlexp(tmp_path, *words[1:], "--dry-run", "--no-probe", "--json").content
    assert proposal["trials"] == outline["trials"]
    assert proposal["test_seeds"] == outline["test_seeds"]
    assert proposal["tuning_seeds"] == outline["tuning_seeds"]
    assert proposal["runs"] == outline["runs"]
    assert not (tmp_path / "runs").exists()


def test_more_hours_buy_more(tmp_path: Path) -> None:
    """With more hours, no true score is lower and no detectable difference is larger."""
    proposals = []
    for hours in (1, 2, 5, 20):
        advice = plan(tmp_path, hours)
        assert advice["more"]["true"] >= advice["proposal"]["true"]
        proposals.append(advice["proposal"])
    true = [proposal["true"] for proposal in proposals]
    detectable = [proposal["detectable"] for proposal in proposals]
    assert sorted(true) == true
    assert true[0] < true[-1]
    assert sorted(detectable, reverse=True) == detectable


def test_the_text_names_the_scale_and_the_command(tmp_path: Path) -> None:
    """The text says where the time comes from, what is proposed and expected, and what to type."""
    printed = " ".join(rlexp(tmp_path, "plan", *WORDS, "--hours", "5", "--no-probe").out.split())
    assert "5 h hold about" in printed
    assert "(a first guess; --probe measures it)" in printed
    for words in ("true score of the winner", "optimism", "detectable difference", "6 h"):
        assert words in printed
    assert "between 10 published tasks" in printed
    assert "To start it: rlexp sweep algorithm=ppo" in printed


def test_a_definition_and_a_long_time_are_planned(tmp_path: Path) -> None:
    """A definition keeps its name; where the table ends, the rest goes into test seeds."""
    advice = plan(tmp_path, 5000, "quick", "experiment=long")
    assert advice["largest"] is True
    assert 192 == advice["largest_trials"] >= advice["proposal"]["trials"]
    assert TEST_SEEDS[0] < advice["proposal"]["test_seeds"]
    assert advice["next"][0]["command"].startswith("rlexp sweep quick experiment=long ")


def test_a_time_beyond_the_table_is_said(tmp_path: Path) -> None:
    """The text says where the table ends, and how many runs it plans nothing for."""
    words = ("plan", *WORDS, "--hours", "50000", "--no-probe")
    printed = " ".join(rlexp(tmp_path, *words).out.split())
    assert "The table of plans ends here" in printed
    assert "searches up to 192 trials, and nothing about larger ones" in printed
    assert "runs of the 50000 h are not planned" in printed


def test_too_little_time_is_one_line(tmp_path: Path) -> None:
    """Hours that hold too few runs are refused with the hours that do, which are accepted."""
    with pytest.raises(ConfigError) as mistake:
        plan(tmp_path, 0.001)
    text = str(mistake.value)
    assert "\n" not in text
    enough = text.partition("--hours ")[2].partition(",")[0]
    assert plan(tmp_path, float(enough))["runs"]
    for hours in (0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match="--hours"):
            plan(tmp_path, hours)


def test_an_existing_sweep_is_refused(tmp_path: Path) -> None:
    """A sweep that exists has its plan; another name is offered."""
    from stored_sweeps import StoredSweep

    from rlexp.app.workspace import Workspace
    from rlexp.store.layout import Layout

    stored = StoredSweep(Workspace(tmp_path, Layout(tmp_path / "runs")))
    stored.go_on(runs=2)
    with pytest.raises(RecordError, match="experiment=made_up-2"):
        plan(tmp_path, 5, *stored.words)


def test_the_table_is_what_it_says() -> None:
    """Designs count their runs as sweeps do, and a larger budget never chooses a worse design."""
    table = read_design_table()
    assert 10 == table.landscapes
    assert 500 < len(table.results)
    assert 36 + 3 * 4 + 3 * 2 == SweepDesign(36, 5, 0.08, 2, 3).runs
    assert 8 == SweepDesign(8, 1, 0.08, 0, 1).runs
    chosen = [table.best_within(runs) for runs in range(8, 260, 4)]
    scores = [result.true for result in chosen if result is not None]
    assert len(chosen) == len(scores)
    assert sorted(scores) == scores
    assert table.default < scores[0] < 1 < scores[-1]
    assert table.best_within(7) is None
    assert 10 == len({*DECIDED})
