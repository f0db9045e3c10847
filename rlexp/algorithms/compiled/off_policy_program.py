"""Off-policy learning and its environments as one program of JAX, as stable-baselines3 defines it.

What is learned is a `CompiledLearning`: `dqn_program`, `sac_program`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from rlexp.algorithms.compiled.environments import EnvironmentState
from rlexp.algorithms.compiled.program import ChunkLog, CompiledProgram, Scalars
from rlexp.algorithms.compiled.replay import Minibatch, StoredTransitions, sample, store
from rlexp.environments.twins import Tree


class CompiledLearning(Protocol):
    """What an off-policy algorithm does with observations and minibatches."""

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the numbers of an update."""
        ...

    def draw(self, key: jax.Array, steps: int, count: int) -> Tree:
        """Random numbers for the actions of a rollout (steps × …) in so many environments."""
        ...

    def act(
        self,
        learned: Tree,
        observations: jax.Array,
        drawn: Tree,
        *,
        warming: jax.Array,
        exploration: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Actions for the task, and as they are stored.

        Args:
            learned: Networks and optimisers.
            observations: Observations (environments × numbers).
            drawn: Random numbers of this step.
            warming: Whether learning has not started, so that actions are uniformly random.
            exploration: The rate of random actions.
        """
        ...

    def after_step(self, learned: Tree, calls: jax.Array, scalars: Scalars) -> Tree:
        """What changes after the step of this number of all environments: DQN's target network."""
        ...

    def update(
        self,
        learned: Tree,
        minibatch: Minibatch,
        key: jax.Array,
        step: jax.Array,
        scalars: Scalars,
    ) -> tuple[Tree, dict[str, jax.Array]]:
        """One gradient step, the number `step` of its update, and the numbers that are logged."""
        ...


class OffPolicyState(NamedTuple):
    """Everything that a training continues from."""

    learned: Tree
    key: jax.Array
    environments: EnvironmentState
    ring: StoredTransitions


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicyProgram(CompiledProgram):
    """Off-policy learning.

    `advance` takes the scalars `learning_starts`, `gamma`, and what the algorithm needs. The schedules
    are `calls` (steps of all environments before each rollout), `learning_rate`, and `exploration`
    (rollouts × steps). The scalar `active`, if there is one, says whether transitions are stored.

    Attributes:
        learning: The algorithm.
        train_freq: Steps of a rollout in each environment.
        gradient_steps: Gradient steps after a rollout.
        batch_size: Transitions in a minibatch.
        n_steps: Number of reward steps before bootstrapping.
        bootstrap: Whether a truncated episode counts as one that goes on.
    """

    # The ring is large: without its donation, each call would copy it.
    donated: ClassVar[tuple[int, ...]] = (0,)
    resident: ClassVar[tuple[str, ...]] = ("ring",)

    learning: CompiledLearning
    train_freq: int
    gradient_steps: int
    batch_size: int
    n_steps: int
    bootstrap: bool

    @property
    def steps(self) -> int:
        """Steps of a rollout in each environment."""
        return self.train_freq

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the numbers that each rollout logs, means over its update."""
        return self.learning.logged

    def written(self, resident: Mapping[str, Any], schedules: Scalars) -> dict[str, Any]:
        """The newest rows of the ring: those of the most rollouts that a call can have."""
        ring: StoredTransitions = resident["ring"]
        rows = schedules["calls"][0] + jnp.arange(self.rollouts * self.steps)
        return {"ring": jax.tree.map(lambda array: array[rows % len(ring.rewards)], ring)}

    def _iteration(
        self, state: OffPolicyState, scalars: Scalars
    ) -> tuple[OffPolicyState, ChunkLog]:
        key, actions_key, learning_key = jax.random.split(state.key, 3)
        drawn = self.learning.draw(actions_key, self.train_freq, self.environments.count)
        steps = scalars["calls"] + jnp.arange(self.train_freq)

        def step(state: OffPolicyState, row: tuple[Any, ...]) -> Any:
            drawn, calls, exploration = row
            return self._step(state, drawn, calls, exploration, scalars)

        rows = (drawn, steps, scalars["exploration"])
        state, (lengths, returns) = jax.lax.scan(step, state._replace(key=key), rows)
        learned, numbers = self._learn(state, learning_key, scalars)
        return state._replace(learned=learned), ChunkLog(numbers, lengths, returns)

    def _step(
        self,
        state: OffPolicyState,
        drawn: Tree,
        calls: jax.Array,
        exploration: jax.Array,
        scalars: Scalars,
    ) -> tuple[OffPolicyState, tuple[jax.Array, jax.Array]]:
        """One step of all environments, and its transitions in the ring."""
        observations = state.environments.observations
        warming = calls * self.environments.count < scalars["learning_starts"]
        actions, stored = self.learning.act(
            state.learned, observations, drawn, warming=warming, exploration=exploration
        )
        environments, result = self.environments.step(state.environments, actions)
        transition = StoredTransitions(
            observations, result.lasts, stored, result.rewards, result.dones, result.truncations
        )
        ring = store(state.ring, calls, transition, scalars.get("active"))
        learned = self.learning.after_step(state.learned, calls + 1, scalars)
        following = OffPolicyState(learned, state.key, environments, ring)
        return following, (result.lengths, result.returns)

    def _learn(
        self, state: OffPolicyState, key: jax.Array, scalars: Scalars
    ) -> tuple[Tree, dict[str, jax.Array]]:
        """The gradient steps after a rollout, none before learning starts, and means of their numbers."""
        end = scalars["calls"] + self.train_freq
        started = end * self.environments.count > scalars["learning_starts"]
        sums = dict.fromkeys(self.learning.logged, jnp.float32(0))

        def body(step: jax.Array, carried: tuple[Tree, dict[str, jax.Array]]) -> Any:
            learned, sums = carried
            sampling_key, update_key = jax.random.split(jax.random.fold_in(key, step))
            minibatch = sample(
                state.ring,
                sampling_key,
                end,
                self.batch_size,
                self.n_steps,
                scalars["gamma"],
                bootstrap=self.bootstrap,
            )
            learned, numbers = self.learning.update(learned, minibatch, update_key, step, scalars)
            return learned, {name: sums[name] + numbers[name] for name in sums}

        steps = jnp.where(started, self.gradient_steps, 0)
        learned, sums = jax.lax.fori_loop(0, steps, body, (state.learned, sums))
        return learned, {name: total / jnp.maximum(steps, 1) for name, total in sums.items()}
