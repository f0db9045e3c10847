"""An evaluation simulates only the episodes that it counts."""

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from trainings import spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.environments import Environment
from rlexp.environments.composed import Around
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.training.evaluate import Episodes, Evaluator

TASKS = {
    "episodes of one length": ("algorithm=sac", "environment=pendulum"),
    "episodes that differ": ("algorithm=ppo", "environment=cartpole"),
    "observations normalised": (
        *("algorithm=ppo", "environment=pendulum"),
        *("environment.vector.normalise_observations=true", "environment.vector.frame_stack=2"),
    ),
    "a policy with a memory": ("algorithm=recurrent_ppo", "agent=lstm", "environment=cartpole"),
    "actions masked": (
        *("algorithm=maskable_ppo", "environment=gymnasium"),
        "environment.id=odd_environments:Masked-v0",
    ),
    "contexts from a list": ("algorithm=ppo", "environment=cartpole_contexts"),
}


@dataclass(slots=True)
class Counts:
    """The numbers of resets and steps."""

    resets: int = 0
    steps: int = 0


class CountingWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Counts the resets and steps of an environment."""

    def __init__(self, env: gym.Env[Any, Any], counts: Counts) -> None:
        super().__init__(env)
        self._counts = counts

    def reset(self, **settings: Any) -> Any:
        """Count a reset."""
        self._counts.resets += 1
        return self.env.reset(**settings)

    def step(self, action: Any) -> Any:
        """Count a step."""
        self._counts.steps += 1
        return self.env.step(action)


@dataclass(frozen=True, slots=True)
class CountingTask(Around):
    """A task whose environments count resets and steps."""

    counts: Counts = field(default_factory=Counts)

    def make(self, render: str | None = None, inner: Any = None) -> gym.Env[Any, Any]:
        """Return a fresh environment that counts."""
        return CountingWrapper(self.environment.make(render, inner), self.counts)


class Evaluation:
    """An untrained policy and its evaluator."""

    def __init__(self, words: tuple[str, ...], folder: Path) -> None:
        self.training = assemble(spec_of(*words), allowed=("odd_environments",))
        self.model = self.training.build(folder)
        self.counts = Counts()
        self.environment: Environment = CountingTask(self.training.environment, self.counts)
        self.evaluator = Evaluator(self.environment, EVALUATION_ENVIRONMENTS)

    def close(self) -> None:
        """Close all environments."""
        self.evaluator.close()
        assert self.model.env is not None
        self.model.env.close()

    def play(self, episodes: int, *, deterministic: bool) -> tuple[Episodes, Counts]:
        """The episodes on the seeds of the first evaluation, and the simulated resets and steps."""
        self.counts.resets = self.counts.steps = 0
        streams = self.training.streams
        evaluation = self.evaluator.evaluate(
            self.model,
            seeds=[streams.evaluation(0, i) for i in range(EVALUATION_ENVIRONMENTS)],
            sampling=streams.sampling(0),
            episodes=episodes,
            deterministic=deterministic,
            beat=lambda: None,
        )
        return evaluation, Counts(self.counts.resets, self.counts.steps)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("words", TASKS.values(), ids=TASKS.keys())
def test_only_episodes_that_count_are_simulated(
    words: tuple[str, ...], deterministic: bool, tmp_path: Path
) -> None:
    """An evaluation simulates only the episodes that it counts, and they do not change.

    Sixteen episodes keep all eight environments busy, and show the episodes of each.
    """
    with closing(Evaluation(words, tmp_path)) as evaluation:
        all_episodes, _ = evaluation.play(16, deterministic=deterministic)
        for episodes in (3, 10, 16):
            counted_episodes, counts = evaluation.play(episodes, deterministic=deterministic)
            shares = [len(range(i, episodes, 8)) for i in range(EVALUATION_ENVIRONMENTS)]
            positions = [2 * i + j for i, share in enumerate(shares) for j in range(share)]
            assert [all_episodes.returns[i] for i in positions] == counted_episodes.returns
            assert [all_episodes.lengths[i] for i in positions] == counted_episodes.lengths
            assert Counts(episodes, sum(counted_episodes.lengths)) == counts
