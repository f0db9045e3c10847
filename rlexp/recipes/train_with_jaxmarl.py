"""Trains agents by independent PPO on tasks of JaxMARL, as a run of rlexp (`algorithm=recipe/jaxmarl_ippo`).

The Python of a virtual environment with jaxmarl executes it, so nothing of rlexp but `rlexp.trainer` may be
imported here. The package of JaxMARL has tasks and no learners: this is its IPPO (Rutherford et al. 2024,
"JaxMARL: Multi-Agent RL Environments and Algorithms in JAX"), in which all agents share one network, and
no agent sees what others see. Agents must have equal spaces, and discrete actions.
"""

import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rlexp.trainer import TEAM, Trainer

if __name__ == "__main__":
    # JAX reads these when it is imported.
    if Trainer.of_run().configuration["compute"]["device"] == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    if Trainer.of_run().configuration["compute"]["threads"] == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
import optax
from flax import linen

SETTINGS = (
    *("width", "learning_rate", "n_envs", "n_steps", "n_epochs", "n_minibatches", "gamma"),
    *("gae_lambda", "clip_range", "ent_coef", "vf_coef", "max_grad_norm", "longest_episode"),
    "checkpoint_every",
)
"""All settings of this recipe."""


class Network(linen.Module):
    """Logits of the actions and the value of an observation."""

    actions: int
    width: int

    @linen.compact
    def __call__(self, x: Any) -> tuple[Any, Any]:
        """Of observations of shape (N, size), logits of shape (N, actions) and values of shape (N,)."""
        layers = [linen.Dense(self.width) for _ in range(4)]
        actor = linen.tanh(layers[1](linen.tanh(layers[0](x))))
        critic = linen.tanh(layers[3](linen.tanh(layers[2](x))))
        small = linen.initializers.orthogonal(0.01)
        logits = linen.Dense(self.actions, kernel_init=small)(actor)
        return logits, linen.Dense(1)(critic)[..., 0]


class Step(NamedTuple):
    """What one step of all agents in all environments gives, each of shape (agents × environments,)."""

    observation: Any
    action: Any
    likelihood: Any
    value: Any
    reward: Any
    done: Any


class Learner:
    """The task, the network and the update of a run; its state is a tuple of arrays."""

    def __init__(self, run: Trainer) -> None:
        self.settings = run.settings
        if run.task not in jaxmarl.registered_envs:
            raise SystemExit(
                f"JaxMARL has no task {run.task}: environment=external "
                f"environment.name=MPE_simple_spread_v3 (there are: {', '.join(jaxmarl.registered_envs)})"
            )
        self.environment = jaxmarl.make(run.task, **run.configuration["environment"]["arguments"])
        self.agents = list(self.environment.agents)
        spaces = {str(vars(self.environment.action_space(agent))) for agent in self.agents}
        shapes = {self.environment.observation_space(agent).shape for agent in self.agents}
        actions = getattr(self.environment.action_space(self.agents[0]), "n", None)
        if actions is None or len(shapes) > 1 or len(spaces) > 1:
            raise SystemExit(
                f"IPPO needs agents with equal spaces and discrete actions, and {run.task} has others: "
                "environment.name=MPE_simple_spread_v3"
            )
        self.network = Network(int(actions), run.settings["width"])
        self.optimizer = optax.chain(
            optax.clip_by_global_norm(run.settings["max_grad_norm"]),
            optax.adam(run.settings["learning_rate"], eps=1e-5),
        )
        self.update = jax.jit(self._update)
        self.play = jax.jit(self._play, static_argnums=(2, 3))

    def first_state(self, seed: int, training: int) -> Any:
        """The parameters, the optimiser, the environments with their observations, and a random key."""
        keys = jax.random.split(jax.random.key(training), self.settings["n_envs"])
        observations, states = jax.vmap(self.environment.reset)(keys)
        key, first = jax.random.split(jax.random.key(seed))
        parameters = self.network.init(first, self.together(observations))
        key = jax.random.key_data(key)
        return parameters, self.optimizer.init(parameters), states, observations, key

    def together(self, by_agent: Any) -> Any:
        """An array with the rows of all agents, one agent after the other."""
        return jnp.concatenate([by_agent[agent] for agent in self.agents])

    def apart(self, rows: Any) -> dict[str, Any]:
        """The rows of each agent."""
        return dict(zip(self.agents, jnp.split(rows, len(self.agents)), strict=True))

    def _step(self, parameters: Any, carried: Any, key: Any) -> tuple[Any, Step]:
        states, observations = carried
        for_actions, for_steps = jax.random.split(key)
        rows = self.together(observations)
        logits, values = self.network.apply(parameters, rows)
        actions = jax.random.categorical(for_actions, logits)
        keys = jax.random.split(for_steps, self.settings["n_envs"])
        following, states, rewards, dones, _ = jax.vmap(self.environment.step)(
            keys, states, self.apart(actions)
        )
        done = jnp.tile(dones["__all__"], len(self.agents))
        likelihood = log_likelihood(logits, actions)
        step = Step(rows, actions, likelihood, values, self.together(rewards), done)
        return (states, following), step

    def _update(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """Collect a rollout and learn from it; gives the next state and metrics."""
        parameters, moments, states, observations, data = state
        key, for_steps, for_epochs = jax.random.split(jax.random.wrap_key_data(data), 3)
        keys = jax.random.split(for_steps, self.settings["n_steps"])
        (states, observations), steps = jax.lax.scan(
            lambda carried, k: self._step(parameters, carried, k), (states, observations), keys
        )
        _, last = self.network.apply(parameters, self.together(observations))
        advantages = self._advantages(steps, last)
        batch = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (steps, advantages, advantages + steps.value)
        )
        (parameters, moments), losses = jax.lax.scan(
            lambda carried, k: self._epoch(carried, k, batch), (parameters, moments),
            jax.random.split(for_epochs, self.settings["n_epochs"]),
        )  # fmt: skip
        metrics = {"loss": losses.mean(), "reward": steps.reward.mean()}
        return (parameters, moments, states, observations, jax.random.key_data(key)), metrics

    def _advantages(self, steps: Step, last: Any) -> Any:
        gamma, decay = self.settings["gamma"], self.settings["gae_lambda"]

        def back(carried: Any, step: Step) -> tuple[Any, Any]:
            advantage, following = carried
            goes_on = 1.0 - step.done
            error = step.reward + gamma * following * goes_on - step.value
            advantage = error + gamma * decay * goes_on * advantage
            return (advantage, step.value), advantage

        return jax.lax.scan(back, (jnp.zeros_like(last), last), steps, reverse=True)[1]

    def _epoch(self, carried: Any, key: Any, batch: Any) -> Any:
        size, parts = len(batch[1]), self.settings["n_minibatches"]
        order = jax.random.permutation(key, size)[: size - size % parts].reshape(parts, -1)

        def learn(carried: Any, rows: Any) -> tuple[Any, Any]:
            parameters, moments = carried
            part = jax.tree.map(lambda x: x[rows], batch)
            loss, gradient = jax.value_and_grad(self._loss)(parameters, *part)
            change, moments = self.optimizer.update(gradient, moments, parameters)
            return (optax.apply_updates(parameters, change), moments), loss

        return jax.lax.scan(learn, carried, order)

    def _loss(self, parameters: Any, steps: Step, advantages: Any, targets: Any) -> Any:
        logits, values = self.network.apply(parameters, steps.observation)
        ratio = jnp.exp(log_likelihood(logits, steps.action) - steps.likelihood)
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clip = self.settings["clip_range"]
        surrogate = jnp.minimum(ratio * scaled, jnp.clip(ratio, 1 - clip, 1 + clip) * scaled)
        entropy = -(jax.nn.softmax(logits) * jax.nn.log_softmax(logits)).sum(-1).mean()
        error = jnp.square(values - targets).mean()
        weights = self.settings["vf_coef"], self.settings["ent_coef"]
        return -surrogate.mean() + weights[0] * 0.5 * error - weights[1] * entropy

    def _play(self, parameters: Any, seed: Any, episodes: int, deterministic: bool) -> Any:
        """The return of each agent in each episode, of shape (episodes,) by agent."""

        def episode(key: Any) -> Any:
            key, first = jax.random.split(key)
            observations, state = self.environment.reset(first)

            def move(carried: Any, key: Any) -> tuple[Any, Any]:
                state, observations, over = carried
                rows = jnp.stack([observations[agent] for agent in self.agents])
                logits, _ = self.network.apply(parameters, rows)
                for_actions, for_step = jax.random.split(key)
                drawn = jax.random.categorical(for_actions, logits)
                chosen = logits.argmax(-1) if deterministic else drawn
                actions = dict(zip(self.agents, chosen, strict=True))
                observations, state, rewards, dones, _ = self.environment.step(
                    for_step, state, actions
                )
                counted = {agent: rewards[agent] * ~over for agent in self.agents}
                return (state, observations, over | dones["__all__"]), counted

            keys = jax.random.split(key, self.settings["longest_episode"])
            rewards = jax.lax.scan(move, (state, observations, jnp.bool_(False)), keys)[1]
            return {agent: rewards[agent].sum() for agent in self.agents}

        return jax.vmap(episode)(jax.random.split(jax.random.key(seed), episodes))


def log_likelihood(logits: Any, actions: Any) -> Any:
    """The logarithm of the probability of each action."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], axis=1)[:, 0]


def evaluate(
    run: Trainer, learner: Learner, parameters: Any, step: int, *, final: bool = False
) -> None:
    """Play and report an evaluation."""
    seed, episodes = run.evaluation(step, final=final)
    deterministic = run.configuration["budget"]["evaluation_deterministic"]
    returns = learner.play(parameters, np.uint32(seed), episodes, deterministic)
    columns = {agent: np.asarray(values).tolist() for agent, values in returns.items()}
    run.evaluated_team(step, columns, final=final)


def save(state: Any, path: Path) -> None:
    """Save a state, which holds all that decides the rest of the training."""
    path.write_bytes(pickle.dumps(jax.device_get(state)))


def main() -> None:
    """Train and evaluate the run."""
    run = Trainer.of_run()
    run.check_settings(SETTINGS)
    learner = Learner(run)
    run.check_components([TEAM, *learner.agents])
    saved = run.restored()
    if saved:
        # The file is this run's own, so that unpickling it executes no foreign code.
        state = pickle.loads(saved.path.read_bytes())  # noqa: S301
    else:
        state = learner.first_state(run.seed, run.configuration["seeds"]["training"][0])
    step, kept = (saved.step, saved.step) if saved else (0, 0)
    while step < run.steps:
        state, metrics = learner.update(state)
        step += run.settings["n_envs"] * run.settings["n_steps"]
        run.report(step, **metrics)
        if run.is_due(step):
            evaluate(run, learner, state[0], step)
        if step - kept >= run.settings["checkpoint_every"]:
            kept = step
            run.checkpoint(step, partial(save, state))
    evaluate(run, learner, state[0], step, final=True)


if __name__ == "__main__":
    main()
