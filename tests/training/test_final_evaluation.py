"""`rlexp.final_evaluation` plays and reports the final evaluation of a training script."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.spaces import Discrete

import rlexp
from rlexp.errors import ConfigError


class Counting(gymnasium.Env[Any, Any]):
    """Episodes of three steps, whose rewards are the actions; records the seeds of its resets."""

    def __init__(self) -> None:
        self.action_space = self.observation_space = Discrete(10)
        self.seeds: list[int | None] = []
        self.steps = 0

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict[str, Any]]:
        """Begin an episode."""
        self.seeds.append(seed)
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        self.steps += 1
        return self.steps, float(action), self.steps == 3, False, {}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results file of a run whose final evaluation has two episodes."""
    told = {"budget": {"final_episodes": 2}, "seeds": {"evaluation": [11, 12, 13]}}
    (tmp_path / "told.json").write_text(json.dumps(told))
    monkeypatch.setenv("RLEXP_CONFIGURATION", str(tmp_path / "told.json"))
    monkeypatch.setenv("RLEXP_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def test_the_final_line(results: Path) -> None:
    """Every episode is reported, and the first reset gets the seed of the final evaluation."""
    environment = Counting()
    assert (3.0, 3.0) == rlexp.final_evaluation(environment, lambda observation: observation, 500)
    assert {"step": 500, "returns": [3.0, 3.0], "lengths": [3, 3], "final": True} == json.loads(
        results.read_text()
    )
    assert [13, None] == environment.seeds


def test_rewards_that_a_wrapper_changes(results: Path) -> None:
    """The statistics of a wrapper below one that changes rewards are the returns."""

    def make() -> Any:
        recorded = gymnasium.wrappers.RecordEpisodeStatistics(Counting())
        return gymnasium.wrappers.TransformReward(recorded, lambda reward: float(reward) * 0)

    assert (3.0, 3.0) == rlexp.final_evaluation(make, lambda observation: observation, 500)


def test_nothing_happens_outside_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that is started by itself plays no evaluation."""
    monkeypatch.delenv("RLEXP_CONFIGURATION", raising=False)
    assert () == rlexp.final_evaluation(None, lambda observation: observation, 500)


def test_a_missing_variable(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that gets one of the two variables only is told so."""
    monkeypatch.delenv("RLEXP_RESULTS")
    with pytest.raises(ConfigError, match="RLEXP_RESULTS is not set"):
        rlexp.final_evaluation(Counting(), lambda observation: observation, 500)
