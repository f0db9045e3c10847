"""Records of schema 2 keep their numbers, and runs are added to their experiments.

`tests/store/schema_2/runs.tar.xz` was written by rlexp 0.1.0 before its release. It holds PPO and A2C on
two seeds each, in an experiment that was renamed, tagged and given a note; a sweep of two trials; and
two imported runs. Checkpoints are left out.
"""

import tarfile
from pathlib import Path

import pytest
from command_line import give
from quick_parts import quick_parts

import rlexp

STORED = Path(__file__).parents[2] / "store" / "schema_2" / "runs.tar.xz"
WORDS = (
    *("algorithm=ppo,a2c", "environment=cartpole", "component=sticky_actions"),
    *("algorithm.n_steps=64", "agent.network=[8]", "experiment=trained"),
    *("budget.steps=128", "budget.evaluation_every=64", "budget.final_episodes=2"),
)

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the experiments."""
    folder = tmp_path_factory.mktemp("schema 2")
    with tarfile.open(STORED) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(
    ("experiment", "label", "scores"),
    [
        ("trained", "ppo", [10.0, 12.5]),
        ("trained", "a2c", [37.0, 38.5]),
        ("searched", "tuned", [133.0, 211.0]),
        ("searched", "default", [57.0, 49.0]),
        ("imported", "PPO", [2.5, 3.0]),
    ],
)
def test_scores_stay(workspace: Path, experiment: str, label: str, scores: list[float]) -> None:
    """Every label has the scores that were recorded, in the order of its seeds."""
    records = rlexp.load(workspace / "runs" / experiment)
    assert scores == records.scores(label=label).tolist()


def test_names_tags_and_notes_stay(workspace: Path) -> None:
    """The former name, the tags and the notes of an experiment are shown."""
    text = give(workspace, "show", "trained")
    assert "formerly first" in text
    assert "tags: kept" in text
    assert "written for the tests" in text


def test_the_winner_of_a_sweep_stays(workspace: Path) -> None:
    """The choice of a sweep is read and not made again."""
    assert "tuned (trial 1) was chosen from 2 trials" in give(workspace, "best", "searched")


@pytest.mark.parametrize(
    ("experiment", "attempts"), [("trained", 4), ("searched", 7), ("imported", 2)]
)
def test_ledgers_match(workspace: Path, experiment: str, attempts: int) -> None:
    """Every attempt matches the ledger."""
    assert f"{attempts} of {attempts} attempts match" in give(workspace, "verify", experiment)


def test_experiments_are_compared_reported_and_exported(workspace: Path, tmp_path: Path) -> None:
    """A comparison, a report and an export of the records are made."""
    assert "ppo and a2c" in give(workspace, "compare", "trained")
    report = ("report", "trained", "searched", "imported", "--output", str(tmp_path / "report"))
    give(workspace, *report)
    give(workspace, "export", "csv", "trained", "--output", str(tmp_path / "runs.csv"))
    assert (tmp_path / "report" / "report.html").exists()
    assert (tmp_path / "runs.csv").exists()


@pytest.mark.parametrize(
    ("seeds", "plan"), [(2, "nothing to run"), (3, "2 runs × 128 environment steps")]
)
def test_the_same_command_asks_for_what_is_missing(workspace: Path, seeds: int, plan: str) -> None:
    """Identities are those of the records: no run is repeated, and further seeds are added."""
    assert plan in give(workspace, "run", *WORDS, f"seeds.test={seeds}", "--dry-run")
