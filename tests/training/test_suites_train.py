"""Every suite of environments trains by the same code; it is skipped without its extra."""

from pathlib import Path

import numpy as np
import pytest
from trainings import run_training

from rlexp.environments.suites import SUITES, is_installed
from rlexp.records.events import Ending, Evaluated

# MO-Gymnasium declares rewards as rounded 32-bit numbers.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting")
EXTRAS = {suite.extra: suite for suite in SUITES}
SHORT_BUDGET = (
    *("budget.steps=64", "budget.evaluation_every=64"),
    *("budget.evaluation_episodes=1", "budget.final_episodes=2", "compute.threads=1"),
)
SMALL_PPO = ("algorithm.n_steps=32", "algorithm.batch_size=32", "algorithm.n_epochs=1")
SHORT = "environment.max_episode_steps=40"
CASES = {
    "atari": (
        "agent=cnn",
        "environment=atari_breakout",
        "environment.vector.count=2",
        # The limit counts frames; resets are slow.
        "environment.max_episode_steps=160",
        "budget.evaluation_every=null",
    ),
    "box2d": ("environment=lunar_lander", SHORT),
    "electric-motor": ("environment=motor_current", SHORT),
    "highway": (
        "environment=highway",
        "environment.max_episode_steps=5",
        "environment.arguments={config:{vehicles_count:2}}",
        *("budget.steps=32", "budget.evaluation_every=null"),
    ),
    "metaworld": (
        "environment=metaworld_mt10",
        "environment.tasks=[reach-v3,drawer-close-v3]",
        "environment.name=two",
        SHORT,
    ),
    "minigrid": ("environment=minigrid_empty", SHORT),
    "mujoco": ("environment=hopper", SHORT),
    "multi-objective": ("environment=deep_sea_treasure", SHORT),
    "robotics": ("agent=multi_input", "environment=fetch_reach"),
}
MEASURES = {
    "highway": {"crashed"},
    "metaworld": {"success", "success/drawer-close-v3", "success/reach-v3"},
    "multi-objective": {"return/time", "return/treasure"},
    "robotics": {"success"},
}


def test_every_suite_is_trained() -> None:
    """Every suite has a case in this file."""
    assert set(EXTRAS) == set(CASES)


@pytest.mark.parametrize("extra", sorted(CASES))
def test_a_suite_trains(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each suite trains and is evaluated, and measures of each episode are stored."""
    if not is_installed(EXTRAS[extra]):
        pytest.skip(f"needs rlexp[{extra}]")
    # MuJoCo writes its warnings into the current folder.
    monkeypatch.chdir(tmp_path)
    listener, end = run_training(
        tmp_path, "algorithm=ppo", *SMALL_PPO, *SHORT_BUDGET, *CASES[extra]
    )
    assert (Ending.COMPLETED, None) == (end.ending, end.reason)
    final = [event for event in listener.events if isinstance(event, Evaluated)][-1]
    assert (True, 2) == (final.final, len(final.returns))
    assert MEASURES.get(extra, set()) == set(final.measures or {})


def test_hindsight_trains_on_a_fetch_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SAC with hindsight collects episodes of FetchReach, learns from them and reports success."""
    pytest.importorskip("gymnasium_robotics", reason="needs rlexp[robotics]")
    monkeypatch.chdir(tmp_path)
    words = (
        *("algorithm=sac", "agent=multi_input", "environment=fetch_reach", "replay=her"),
        *("algorithm.learning_starts=60", "algorithm.batch_size=16", "algorithm.buffer_size=1000"),
        *("budget.steps=110", "budget.evaluation_every=null", "budget.final_episodes=2"),
    )
    listener, end = run_training(tmp_path, *words)
    assert (Ending.COMPLETED, None) == (end.ending, end.reason)
    final = [event for event in listener.events if isinstance(event, Evaluated)][-1]
    assert {"success"} == set(final.measures or {})


def test_the_score_is_the_weighted_sum_of_kept_returns(tmp_path: Path) -> None:
    """The return of an episode is the weighted sum of the returns of its objectives."""
    pytest.importorskip("mo_gymnasium", reason="needs rlexp[multi-objective]")
    words = (*CASES["multi-objective"], "environment.weights=[0.25,2.0]")
    listener, _ = run_training(tmp_path, "algorithm=ppo", *SMALL_PPO, *SHORT_BUDGET, *words)
    final = [event for event in listener.events if isinstance(event, Evaluated)][-1]
    measures = final.measures or {}
    treasure, time = (np.array(measures[f"return/{name}"]) for name in ("treasure", "time"))
    assert np.allclose(final.returns, 0.25 * treasure + 2.0 * time)
    assert [-float(length) for length in final.lengths] == list(measures["return/time"])


def test_an_evaluation_plays_all_tasks_alike(tmp_path: Path) -> None:
    """An evaluation of two episodes plays each of two tasks once, and reports their success."""
    pytest.importorskip("metaworld", reason="needs rlexp[metaworld]")
    listener, _ = run_training(
        tmp_path, "algorithm=ppo", *SMALL_PPO, *SHORT_BUDGET, *CASES["metaworld"]
    )
    final = [event for event in listener.events if isinstance(event, Evaluated)][-1]
    success_values = [
        v for name, v in (final.measures or {}).items() if name.startswith("success/")
    ]
    assert [[False, True], [False, True]] == [
        sorted(map(bool, np.isnan(v))) for v in success_values
    ]
