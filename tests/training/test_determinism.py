"""Equal runs give equal bytes; different seeds give different ones."""

from pathlib import Path

import pytest
from trainings import TINY, shared, trained, without_times

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
    """Weights and all events are equal, except for times."""
    first, one = shared(*TINY[algorithm], *SHORT)
    second, two = trained(tmp_path, *TINY[algorithm], *SHORT)
    assert one.weights is not None
    assert one.weights == two.weights
    assert without_times(first.events) == without_times(second.events)


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    """Runs with seeds 0 and 1 have different weights."""
    _, one = shared(*TINY["ppo"], *SHORT)
    _, two = trained(tmp_path, *TINY["ppo"], *SHORT, seed=1)
    assert two.weights is not None
    assert one.weights != two.weights


@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "sac"])
def test_evaluations_do_not_disturb_the_training(algorithm: str, tmp_path: Path) -> None:
    """Frequent evaluations, sampled or deterministic, do not change the final weights."""
    words = (*TINY[algorithm], *SHORT)
    _, often = shared(*words)
    _, sampled = trained(tmp_path / "sampled", *words, "budget.evaluation_deterministic=false")
    _, never = trained(tmp_path / "never", *words, "budget.evaluation_every=null")
    assert never.weights is not None
    assert [never.weights] * 2 == [often.weights, sampled.weights]


def test_environments_in_processes_give_the_numbers_of_those_in_one(tmp_path: Path) -> None:
    """Subprocess and dummy vectors use the same seeds and give the same weights."""
    both = [
        trained(tmp_path / kind, *TINY["ppo"], *SHORT, *words)[1]
        for kind in ("dummy", "subprocess")
        for words in [(f"environment.vector.kind={kind}", "environment.vector.count=2")]
    ]
    assert both[0].weights == both[1].weights


def test_the_final_score_does_not_depend_on_the_machine_of_evaluation(tmp_path: Path) -> None:
    """Evaluations are numbered, so that each plays other episodes on every machine."""
    memory, _ = trained(tmp_path, *TINY["ppo"], *SHORT, "algorithm.learning_rate=1e-12")
    first, second, *_ = [e.returns for e in memory.events if isinstance(e, Evaluated)]
    assert first != second


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
def test_environments_that_draw_from_global_generators_repeat(kind: str, tmp_path: Path) -> None:
    """The global generators of each environment process have separate seeds."""
    words = (
        "environment=gymnasium",
        "environment.id=odd_environments:Global-v0",
        "algorithm.n_steps=64",
        f"environment.vector.kind={kind}",
        "environment.vector.count=2",
    )
    _, one = trained(tmp_path / "1", *words, *SHORT)
    _, two = trained(tmp_path / "2", *words, *SHORT)
    _, never = trained(tmp_path / "3", *words, *SHORT, "budget.evaluation_every=null")
    assert one.weights is not None
    assert one.weights == two.weights == never.weights
