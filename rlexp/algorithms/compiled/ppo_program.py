"""PPO and its environments as one program of JAX, by the definitions of stable-baselines3."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlexp.algorithms.compiled.adam import AdamState, adam, cut_norm
from rlexp.algorithms.compiled.environments import EnvironmentState
from rlexp.algorithms.compiled.policy import CompiledPolicy, Parameters
from rlexp.algorithms.compiled.program import ChunkLog, CompiledProgram, Scalars

EPSILON = 1e-5
"""Epsilon of Adam, as `ActorCriticPolicy` of stable-baselines3 sets it."""
LOGGED = (
    *("entropy_loss", "policy_gradient_loss", "value_loss", "clip_fraction", "approx_kl"),
    *("loss", "explained_variance", "std", "epochs"),
)
"""Numbers that each rollout logs."""


class ProgramState(NamedTuple):
    """Everything that a training continues from."""

    optimiser: AdamState
    key: jax.Array
    environments: EnvironmentState


class Rollout(NamedTuple):
    """What was done, and what the environments returned: fields of `StepResult` (steps × …)."""

    observations: jax.Array
    actions: jax.Array
    log_probabilities: jax.Array
    values: jax.Array
    rewards: jax.Array
    lasts: jax.Array
    dones: jax.Array
    truncations: jax.Array
    lengths: jax.Array
    returns: jax.Array


class Experience(NamedTuple):
    """Transitions to learn from."""

    observations: jax.Array
    actions: jax.Array
    log_probabilities: jax.Array
    values: jax.Array
    advantages: jax.Array
    targets: jax.Array


class Epochs(NamedTuple):
    """Sums over the minibatches of an update, for what is logged."""

    sums: dict[str, jax.Array]
    minibatches: jax.Array
    divergence: jax.Array
    divergence_count: jax.Array
    loss: jax.Array
    epochs: jax.Array
    going: jax.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOProgram(CompiledProgram):
    """PPO.

    `advance` takes the scalars `gamma`, `gae_lambda`, `ent_coef`, `vf_coef`, `max_grad_norm` and
    `target_kl`, and the schedules `learning_rate`, `clip_range` and `clip_range_vf`.

    Attributes:
        policy: The networks.
        n_steps: Steps of a rollout in each environment.
        batch_size: Transitions in a minibatch.
        n_epochs: Passes over a rollout.
        normalize_advantage: Whether advantages of a minibatch are normalised.
        clip_values: Whether the change of values is clipped.
        stops_early: Whether a divergence ends the epochs of an update.
    """

    policy: CompiledPolicy
    n_steps: int
    batch_size: int
    n_epochs: int
    normalize_advantage: bool
    clip_values: bool
    stops_early: bool

    @property
    def steps(self) -> int:
        """Steps of a rollout in each environment."""
        return self.n_steps

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the numbers that each rollout logs."""
        return LOGGED

    def _iteration(self, state: ProgramState, scalars: Scalars) -> tuple[ProgramState, ChunkLog]:
        key, actions_key, epochs_key = jax.random.split(state.key, 3)
        parameters = state.optimiser.parameters
        environments, rollout = self._collect(parameters, state.environments, actions_key)
        batch = self._experience(parameters, environments, rollout, scalars)
        optimiser, epochs = self._learn(state.optimiser, batch, epochs_key, scalars)
        log = ChunkLog(self._logged(optimiser, epochs, batch), rollout.lengths, rollout.returns)
        return ProgramState(optimiser, key, environments), log

    def _collect(
        self, parameters: Parameters, environments: EnvironmentState, key: jax.Array
    ) -> tuple[EnvironmentState, Rollout]:
        def step(
            environments: EnvironmentState, key: jax.Array
        ) -> tuple[EnvironmentState, Rollout]:
            observations = environments.observations
            actions, log_probabilities = self.policy.sample(key, parameters, observations)
            values = self.policy.value(parameters, observations)
            # The policy is judged by its own draw, and the task gets an action in bounds.
            following, result = self.environments.step(environments, actions)
            return following, Rollout(observations, actions, log_probabilities, values, *result)

        keys = jax.random.split(key, self.n_steps)
        collected: tuple[EnvironmentState, Rollout] = jax.lax.scan(step, environments, keys)
        return collected

    def _experience(
        self,
        parameters: Parameters,
        environments: EnvironmentState,
        rollout: Rollout,
        scalars: Scalars,
    ) -> Experience:
        """Advantages by generalised advantage estimation, and returns as targets of the values."""
        gamma, smoothing = scalars["gamma"], scalars["gae_lambda"]
        # A truncated episode would have gone on: its last reward gets the value of what follows.
        beyond = self.policy.value(parameters, rollout.lasts)
        rewards = rollout.rewards + jnp.where(rollout.truncations, gamma * beyond, 0.0)
        following = self.policy.value(parameters, environments.observations)

        def back(carried: tuple[jax.Array, jax.Array], row: tuple[jax.Array, ...]) -> Any:
            advantage, next_value = carried
            reward, value, done = row
            going = 1.0 - done
            delta = reward + gamma * next_value * going - value
            advantage = delta + gamma * smoothing * going * advantage
            return (advantage, value), advantage

        rows = (rewards, rollout.values, rollout.dones.astype(jnp.float32))
        start = (jnp.zeros_like(following), following)
        _, advantages = jax.lax.scan(back, start, rows, reverse=True)
        batch = Experience(
            rollout.observations,
            rollout.actions,
            rollout.log_probabilities,
            rollout.values,
            advantages,
            advantages + rollout.values,
        )
        flat: Experience = jax.tree.map(lambda x: x.reshape((self.size, *x.shape[2:])), batch)
        return flat

    def _learn(
        self, optimiser: AdamState, batch: Experience, key: jax.Array, scalars: Scalars
    ) -> tuple[AdamState, Epochs]:
        zero = jnp.float32(0)
        names = ("entropy_loss", "policy_gradient_loss", "value_loss", "clip_fraction")
        epochs = Epochs(
            dict.fromkeys(names, zero), zero, zero, zero, zero, zero, going=jnp.bool_(True)
        )

        def epoch(carried: tuple[AdamState, Epochs], key: jax.Array) -> Any:
            return self._epoch(*carried, batch, key, scalars), None

        keys = jax.random.split(key, self.n_epochs)
        learned, _ = jax.lax.scan(epoch, (optimiser, epochs), keys)
        result: tuple[AdamState, Epochs] = learned
        return result

    def _epoch(
        self,
        optimiser: AdamState,
        epochs: Epochs,
        batch: Experience,
        key: jax.Array,
        scalars: Scalars,
    ) -> tuple[AdamState, Epochs]:
        """One pass over a rollout, in a random order."""
        # An epoch that a divergence has ended before it began leaves everything as it is.
        counts = jnp.where(epochs.going, 0.0, 1.0)
        epochs = epochs._replace(
            epochs=epochs.epochs + epochs.going,
            divergence=epochs.divergence * counts,
            divergence_count=epochs.divergence_count * counts,
        )
        order = jax.random.permutation(key, self.size)
        shuffled = jax.tree.map(lambda x: x[order], batch)
        whole = self.size // self.batch_size
        edge = whole * self.batch_size

        def minibatch(carried: tuple[AdamState, Epochs], part: Experience) -> Any:
            return self._minibatch(*carried, part, scalars), None

        parts = jax.tree.map(
            lambda x: x[:edge].reshape((whole, self.batch_size, *x.shape[1:])), shuffled
        )
        carried, _ = jax.lax.scan(minibatch, (optimiser, epochs), parts)
        if edge < self.size:
            carried, _ = minibatch(carried, jax.tree.map(lambda x: x[edge:], shuffled))
        result: tuple[AdamState, Epochs] = carried
        return result

    def _minibatch(
        self, optimiser: AdamState, epochs: Epochs, batch: Experience, scalars: Scalars
    ) -> tuple[AdamState, Epochs]:
        """One gradient step."""
        gradient = jax.value_and_grad(self._loss, has_aux=True)

        def learn(optimiser: AdamState, epochs: Epochs) -> tuple[AdamState, Epochs]:
            (loss, numbers), slopes = gradient(optimiser.parameters, batch, scalars)
            divergence = numbers.pop("approx_kl")
            # The minibatch that ends the epochs is logged, and not learned from.
            going = jnp.bool_(True)
            if self.stops_early:
                going = ~(divergence > 1.5 * scalars["target_kl"])
            epochs = epochs._replace(
                sums={name: epochs.sums[name] + numbers[name] for name in epochs.sums},
                minibatches=epochs.minibatches + 1,
                divergence=epochs.divergence + divergence,
                divergence_count=epochs.divergence_count + 1,
                loss=loss,
                going=going,
            )
            slopes = cut_norm(slopes, scalars["max_grad_norm"])
            stepped = adam(optimiser, slopes, scalars["learning_rate"], EPSILON)
            if not self.stops_early:
                return stepped, epochs
            chosen = jax.tree.map(lambda new, old: jnp.where(going, new, old), stepped, optimiser)
            return chosen, epochs

        if not self.stops_early:
            return learn(optimiser, epochs)
        learned: tuple[AdamState, Epochs] = jax.lax.cond(
            epochs.going, learn, lambda *same: same, optimiser, epochs
        )
        return learned

    def _loss(
        self, parameters: Parameters, batch: Experience, scalars: Scalars
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The loss of a minibatch, and what is logged of it."""
        log_probabilities, entropies = self.policy.judge(
            parameters, batch.observations, batch.actions
        )
        values = self.policy.value(parameters, batch.observations)
        advantages = batch.advantages
        if self.normalize_advantage and len(advantages) > 1:
            # torch divides by n - 1.
            advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
        difference = log_probabilities - batch.log_probabilities
        ratio, clip = jnp.exp(difference), scalars["clip_range"]
        clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
        policy_loss = -jnp.minimum(advantages * ratio, advantages * clipped).mean()
        if self.clip_values:
            most = scalars["clip_range_vf"]
            values = batch.values + jnp.clip(values - batch.values, -most, most)
        value_loss = jnp.square(batch.targets - values).mean()
        entropy_loss = -entropies.mean()
        loss = policy_loss + scalars["ent_coef"] * entropy_loss + scalars["vf_coef"] * value_loss
        return loss, {
            "entropy_loss": entropy_loss,
            "policy_gradient_loss": policy_loss,
            "value_loss": value_loss,
            "clip_fraction": (jnp.abs(ratio - 1) > clip).mean(),
            "approx_kl": jax.lax.stop_gradient((ratio - 1) - difference).mean(),
        }

    def _logged(
        self, optimiser: AdamState, epochs: Epochs, batch: Experience
    ) -> dict[str, jax.Array]:
        variance = jnp.var(batch.targets)
        left = jnp.var(batch.targets - batch.values)
        # The library divides by a variance of 0 to NaN as well.
        explained = jnp.where(variance == 0, jnp.nan, 1 - left / variance)
        deviation = optimiser.parameters.get("log_std", jnp.zeros(1))
        return {
            **{name: total / epochs.minibatches for name, total in epochs.sums.items()},
            "approx_kl": epochs.divergence / epochs.divergence_count,
            "loss": epochs.loss,
            "explained_variance": explained,
            "std": jnp.exp(deviation).mean(),
            "epochs": epochs.epochs,
        }
