"""Equal runs give equal weights and events; different seeds give different weights."""

from pathlib import Path

import pytest
from trainings import TINY, run_training, shared_training, without_times

from rlexp.records.events import Evaluated

SHORT = (
    *("budget.steps=128", "budget.evaluation_every=32", "budget.evaluation_episodes=2"),
    *("budget.final_episodes=2", "environment.max_episode_steps=30", "agent.network=[8]"),
)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "sac"])
def test_the_same_run_twice_gives_the_same_weights_and_journal(
    algorithm: str,
    tmp_path: Path,
) -> None:
    """Two trainings of the same run have equal weights, and equal events except for times."""
    first_listener, first_end = shared_training(*TINY[algorithm], *SHORT)
    second_listener, second_end = run_training(tmp_path, *TINY[algorithm], *SHORT)
    assert first_end.weights is not None
    assert first_end.weights == second_end.weights
    assert without_times(first_listener.events) == without_times(second_listener.events)


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    """Runs with seeds 0 and 1 have different weights."""
    _, first_end = shared_training(*TINY["ppo"], *SHORT)
    _, second_end = run_training(tmp_path, *TINY["ppo"], *SHORT, seed=1)
    assert second_end.weights is not None
    assert first_end.weights != second_end.weights


@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "sac"])
def test_evaluations_do_not_disturb_the_training(algorithm: str, tmp_path: Path) -> None:
    """Frequent evaluations, sampled or deterministic, do not change the final weights."""
    words = (*TINY[algorithm], *SHORT)
    _, end_frequent = shared_training(*words)
    _, end_sampled = run_training(
        tmp_path / "sampled", *words, "budget.evaluation_deterministic=false"
    )
    _, end_unevaluated = run_training(tmp_path / "never", *words, "budget.evaluation_every=null")
    assert end_unevaluated.weights is not None
    assert [end_unevaluated.weights] * 2 == [end_frequent.weights, end_sampled.weights]


def test_environments_in_processes_give_the_numbers_of_those_in_one(tmp_path: Path) -> None:
    """Subprocess and dummy vectors use the same seeds and give the same weights."""
    ends = [
        run_training(tmp_path / kind, *TINY["ppo"], *SHORT, *words)[1]
        for kind in ("dummy", "subprocess")
        for words in [(f"environment.vector.kind={kind}", "environment.vector.count=2")]
    ]
    assert ends[0].weights == ends[1].weights


def test_every_evaluation_plays_other_episodes(tmp_path: Path) -> None:
    """Two evaluations of almost the same policy play different episodes."""
    listener, _ = run_training(tmp_path, *TINY["ppo"], *SHORT, "algorithm.learning_rate=1e-12")
    first, second, *_ = [e.returns for e in listener.events if isinstance(e, Evaluated)]
    assert first != second


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
def test_environments_that_draw_from_global_generators_repeat(kind: str, tmp_path: Path) -> None:
    """Trainings repeat, although their environments draw from global generators."""
    words = (
        "environment=gymnasium",
        "environment.id=odd_environments:Global-v0",
        "algorithm.n_steps=64",
        f"environment.vector.kind={kind}",
        "environment.vector.count=2",
    )
    _, first_end = run_training(tmp_path / "1", *words, *SHORT)
    _, second_end = run_training(tmp_path / "2", *words, *SHORT)
    _, end_without_evaluations = run_training(
        tmp_path / "3", *words, *SHORT, "budget.evaluation_every=null"
    )
    assert first_end.weights is not None
    assert first_end.weights == second_end.weights == end_without_evaluations.weights
