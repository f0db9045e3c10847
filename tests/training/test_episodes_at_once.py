"""Episodes that an evaluation plays at once have the returns of the library's own calls."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from trainings import spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.errors import EnvironmentFault
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.training.evaluate import Episodes, Evaluator
from rlexp.training.lean.actor_critic import CLEAR_GAP, clear_maxima
from rlexp.training.lean.classic_vector import ClassicControlVector
from rlexp.training.lean.learner import shortcuts_of
from rlexp.training.lean.registry import SHORTCUTS
from rlexp.training.parts import Training

EVERY_SHORTCUT = frozenset(shortcut.name for shortcut in SHORTCUTS)
TASKS = (
    ("ppo", "cartpole"),
    ("dqn", "cartpole"),
    ("a2c", "acrobot"),
    ("dqn", "mountain_car"),
    ("ppo", "pendulum"),
    ("sac", "pendulum"),
    ("td3", "pendulum"),
)


@contextmanager
def parts(algorithm: str, task: str, folder: Path) -> Iterator[tuple[Training, BaseAlgorithm]]:
    """A training with its untrained policy, whose episodes are at most 60 steps long."""
    training = assemble(spec_of(f"algorithm={algorithm}", f"environment={task}"))
    environment = replace(training.environment, max_episode_steps=60)  # type: ignore[type-var]
    model = training.build(folder)
    assert model.env is not None
    with closing(model.env):
        yield replace(training, environment=environment), model


def played(training: Training, model: BaseAlgorithm, episodes: int, *, lean: bool) -> Episodes:
    """The episodes of an evaluation with all shortcuts or with none."""
    with ExitStack() as stack:
        evaluator = Evaluator(training.environment, EVALUATION_ENVIRONMENTS, at_once=lean)
        stack.enter_context(closing(evaluator))
        stack.enter_context(shortcuts_of(model, EVERY_SHORTCUT if lean else frozenset()))
        return evaluator.evaluate(
            model,
            seeds=range(EVALUATION_ENVIRONMENTS),
            sampling=0,
            episodes=episodes,
            deterministic=True,
            beat=lambda: None,
        )


@pytest.mark.parametrize("episodes", [5, 19])
@pytest.mark.parametrize(("algorithm", "task"), TASKS)
def test_returns_are_those_of_ordinary_calls(
    algorithm: str, task: str, episodes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Returns and lengths are equal numbers, and the lean evaluation steps its vector by `play` only."""
    with parts(algorithm, task, tmp_path) as (training, model):
        expected = played(training, model, episodes, lean=False)
        monkeypatch.setattr(ClassicControlVector, "step_async", None)
        assert expected == played(training, model, episodes, lean=True)
        assert episodes == len(expected.returns)


def test_equal_logits_are_decided_by_the_library(tmp_path: Path) -> None:
    """A policy that prefers no action plays as the library's does."""
    with parts("ppo", "cartpole", tmp_path) as (training, model):
        with torch.no_grad():
            model.policy.action_net.weight.zero_()  # type: ignore[union-attr, operator]
        assert played(training, model, 9, lean=False) == played(training, model, 9, lean=True)


def test_a_policy_without_numbers_fails_alike(tmp_path: Path) -> None:
    """NaN in the actions of a policy is the same fault with and without shortcuts."""
    faults = []
    with parts("td3", "pendulum", tmp_path) as (training, model):
        with torch.no_grad():
            model.policy.actor.mu[-2].bias.fill_(float("nan"))  # type: ignore[union-attr, index]
        for lean in (False, True):
            with pytest.raises(EnvironmentFault) as caught:
                played(training, model, 5, lean=lean)
            faults.append(str(caught.value))
    assert faults[0] == faults[1]


@pytest.mark.parametrize("actions", [2, 3, 18, 999])
@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1.0, 1e6])
def test_a_clear_maximum_is_the_most_probable_action(actions: int, scale: float) -> None:
    """Where the maximum counts as clear, the library's probabilities have their maximum there."""
    generator = np.random.default_rng(0)
    for offset in (0.0, 100.0):
        # The two largest logits of many rows are about as close as the limit.
        rows = generator.normal(offset, scale, (300, actions)).astype(np.float32)
        rows[:, 1] = rows.max(axis=1) + np.float32(1.1 * CLEAR_GAP)
        for row in torch.from_numpy(rows)[:, None]:
            clear = clear_maxima(row)
            logits = row - row.logsumexp(dim=-1, keepdim=True)
            expected = torch.softmax(logits, dim=-1).argmax(dim=1)
            assert clear is None or clear.equal(expected)
    assert clear_maxima(torch.tensor([[0.0, 1.0] + [-1.0] * (actions - 2)])) is not None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 3e38])
@pytest.mark.parametrize("actions", [2, 3])
def test_no_number_is_a_clear_maximum(value: float, actions: int) -> None:
    """Infinite, missing and immense logits are left to the library, in any position."""
    for position in range(actions):
        row = torch.zeros((1, actions))
        row[0, (position + 1) % actions] = -3e38 if value == 3e38 else 1.0
        row[0, position] = value
        assert clear_maxima(row) is None
