"""Off-policy learning and its environments as one program of JAX, as stable-baselines3 defines it.

`OffPolicyProgram.advance` takes a state, trains for some rollouts, and returns the next state with what
each rollout logged. How rollouts are divided among calls changes no bit of the states. What is learned
is a `CompiledLearning`: `dqn_program`, `sac_program`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp

from rlexp.algorithms.compiled.environments import CompiledEnvironments, EnvironmentState
from rlexp.algorithms.compiled.replay import Minibatch, Transitions, sample, store
from rlexp.environments.twins import Tree

Scalars: TypeAlias = Mapping[str, jax.Array]
"""Hyperparameters that the program takes as arguments, so that they need no new compilation."""


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
    ring: Transitions


class OffPolicyLog(NamedTuple):
    """What rollouts logged: means over an update (rollouts), and ends of episodes.

    Lengths and returns are those of `StepResult` (rollouts × steps × environments).
    """

    numbers: dict[str, jax.Array]
    lengths: jax.Array
    returns: jax.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicyProgram:
    """The settings that shape the program; a change of one of them compiles another program.

    Attributes:
        environments: The environments.
        learning: The algorithm.
        train_freq: Steps of a rollout in each environment.
        gradient_steps: Gradient steps after a rollout.
        batch_size: Transitions in a minibatch.
        n_steps: Number of reward steps before bootstrapping.
        bootstrap: Whether a truncated episode counts as one that goes on.
        rollouts: Rollouts of one call, at most.
    """

    environments: CompiledEnvironments
    learning: CompiledLearning
    train_freq: int
    gradient_steps: int
    batch_size: int
    n_steps: int
    bootstrap: bool
    rollouts: int
    advance: Callable[..., tuple[OffPolicyState, OffPolicyLog]] = field(init=False)
    begin: Callable[..., tuple[jax.Array, EnvironmentState]] = field(init=False)

    def __post_init__(self) -> None:
        # The ring is large: without its donation, each call would copy it.
        object.__setattr__(self, "advance", jax.jit(self._advance, donate_argnums=0))
        object.__setattr__(self, "begin", jax.jit(self._begin))

    @property
    def size(self) -> int:
        """Transitions of a rollout."""
        return self.train_freq * self.environments.count

    def _begin(self, seed: jax.Array, seeds: jax.Array) -> tuple[jax.Array, EnvironmentState]:
        """The key of the policy, and environments at the start of their first episodes.

        Args:
            seed: Seed of the policy, 32 bits.
            seeds: Seed of each environment, 32 bits.
        """
        return jax.random.PRNGKey(seed), self.environments.begin(seeds)

    def _advance(
        self, state: OffPolicyState, scalars: Scalars, schedules: Scalars, count: jax.Array
    ) -> tuple[OffPolicyState, OffPolicyLog]:
        """Train for `count` rollouts.

        Args:
            state: The state to continue from.
            scalars: `calls` (steps of all environments so far), `learning_starts`, `gamma`, and what
                the algorithm needs.
            schedules: `learning_rate` of each rollout, and `exploration` (rollouts × steps).
            count: Rollouts, at most `rollouts`.
        """

        def body(number: jax.Array, carried: tuple[OffPolicyState, OffPolicyLog]) -> Any:
            state, log = carried
            here = {**scalars, **{name: row[number] for name, row in schedules.items()}}
            here["calls"] = scalars["calls"] + number * self.train_freq
            state, numbers, lengths, returns = self._iteration(state, here)
            return state, OffPolicyLog(
                {name: log.numbers[name].at[number].set(numbers[name]) for name in numbers},
                log.lengths.at[number].set(lengths),
                log.returns.at[number].set(returns),
            )

        shape = (self.rollouts, self.train_freq, self.environments.count)
        empty = OffPolicyLog(
            {name: jnp.zeros(self.rollouts, jnp.float32) for name in self.learning.logged},
            jnp.zeros(shape, jnp.int32),
            jnp.zeros(shape, jnp.float32),
        )
        advanced: tuple[OffPolicyState, OffPolicyLog] = jax.lax.fori_loop(
            0, count, body, (state, empty)
        )
        return advanced

    def _iteration(
        self, state: OffPolicyState, scalars: Scalars
    ) -> tuple[OffPolicyState, dict[str, jax.Array], jax.Array, jax.Array]:
        """Collect one rollout, and learn from the ring."""
        key, actions_key, learning_key = jax.random.split(state.key, 3)
        drawn = self.learning.draw(actions_key, self.train_freq, self.environments.count)
        steps = scalars["calls"] + jnp.arange(self.train_freq)

        def step(state: OffPolicyState, row: tuple[Any, ...]) -> Any:
            drawn, calls, exploration = row
            return self._step(state, drawn, calls, exploration, scalars)

        rows = (drawn, steps, scalars["exploration"])
        state, (lengths, returns) = jax.lax.scan(step, state._replace(key=key), rows)
        learned, numbers = self._learn(state, learning_key, scalars)
        return state._replace(learned=learned), numbers, lengths, returns

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
        transition = Transitions(
            observations, result.lasts, stored, result.rewards, result.dones, result.truncations
        )
        ring = store(state.ring, calls, transition)
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
