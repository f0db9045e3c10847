"""Trains by d3rlpy on recorded episodes of Minari, as a run of rlexp (`algorithm=recipe/d3rlpy_cql`).

The Python of a virtual environment with d3rlpy executes it, so nothing of rlexp but `rlexp.trainer` may be
imported here. Steps are gradient steps. `settings.algorithm` names the class; settings that are not
`OF_TRAINING` are arguments of its configuration.
"""

import io
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.dataset import TransitionMiniBatch
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.optimizers import AdamFactory
from d3rlpy.optimizers.lr_schedulers import CosineAnnealingLRFactory
from d3rlpy.preprocessing import (
    MinMaxActionScaler,
    ReturnBasedRewardScaler,
    StandardObservationScaler,
)
from gymnasium.spaces import Box
from minari.dataset.minari_storage import MinariStorage

from rlexp.trainer import Trainer

ALGORITHMS = {
    "CQL": d3rlpy.algos.CQLConfig,
    "IQL": d3rlpy.algos.IQLConfig,
    "TD3PlusBC": d3rlpy.algos.TD3PlusBCConfig,
    "ReBRAC": d3rlpy.algos.ReBRACConfig,
}
OF_TRAINING = (
    *("algorithm", "layers", "critic_layer_norm", "standard_observations", "return_range"),
    *("actor_cosine", "checkpoint_every"),
)
"""Settings that are not arguments of the algorithm's configuration."""
REPORT_EVERY = 1_000
"""Gradient steps between two reports of the mean losses."""


@dataclass(frozen=True)
class Recorded:
    """Recorded episodes, all their steps one after the other.

    An episode of t steps has t + 1 rows; those of actions and rewards are 0 in the last row.

    Attributes:
        observations: Array of shape (rows, size).
        actions: Array of shape (rows, size of an action), in the units of the action space.
        rewards: Array of shape (rows, 1).
        terminals: Array of shape (rows, 1): 1 where the task ended by itself after the step.
        usable: The rows of the transitions that are drawn. As in the library, the last step of an episode
            that was cut is left out, for no action follows it.
        returns: The return of each episode.
        space: The space of the actions.
    """

    observations: Any
    actions: Any
    rewards: Any
    terminals: Any
    usable: Any
    returns: Any
    space: Any

    @classmethod
    def read(cls, path: str) -> "Recorded":
        """Read a dataset.

        Args:
            path: The folder with its metadata and its files.
        """
        storage = MinariStorage.read(path)
        spaces = storage.observation_space, storage.action_space
        if not all(isinstance(space, Box) and len(space.shape) == 1 for space in spaces):
            raise SystemExit(
                f"d3rlpy learns here from vectors only: the dataset has observations {spaces[0]} and "
                f"actions {spaces[1]}"
            )
        episodes = list(storage.get_episodes(range(storage.total_episodes)))
        ended = [bool(episode["terminations"][-1]) for episode in episodes]
        lengths = [len(episode["rewards"]) for episode in episodes]
        starts = np.cumsum([0, *(length + 1 for length in lengths)])
        counts = [length - (not end) for length, end in zip(lengths, ended, strict=True)]
        terminals = np.zeros((starts[-1], 1), np.float32)
        for start, length, end in zip(starts[:-1], lengths, ended, strict=True):
            terminals[start + length - 1] = end
        usable = [np.arange(s, s + n) for s, n in zip(starts[:-1], counts, strict=True)]
        if not sum(counts):
            raise SystemExit("the dataset has no step that is followed by another one")
        return cls(
            observations=_rows(episode["observations"] for episode in episodes),
            actions=_rows(_extended(episode["actions"]) for episode in episodes),
            rewards=_rows(_extended(episode["rewards"])[:, None] for episode in episodes),
            terminals=terminals,
            usable=np.concatenate(usable),
            returns=[float(np.sum(episode["rewards"])) for episode in episodes],
            space=storage.action_space,
        )

    def draw(self, count: int, generator: np.random.Generator) -> TransitionMiniBatch:
        """Draw transitions with equal probabilities."""
        rows = self.usable[generator.integers(len(self.usable), size=count)]
        return TransitionMiniBatch(
            observations=self.observations[rows],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            next_observations=self.observations[rows + 1],
            next_actions=self.actions[rows + 1],
            terminals=self.terminals[rows],
            intervals=np.ones((count, 1), np.float32),
            transitions=(),
        )


def _rows(parts: Iterable[Any]) -> Any:
    return np.concatenate([np.asarray(part, np.float32) for part in parts])


def _extended(part: Any) -> Any:
    """The rows of an episode and a row of zeros."""
    rows = np.asarray(part)
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def untrained(run: Trainer, recorded: Recorded) -> Any:
    """The learner with the settings and the seed of the run."""
    settings = run.settings
    kind = ALGORITHMS.get(settings["algorithm"])
    if kind is None:
        raise SystemExit(
            f"algorithm.settings.algorithm={settings['algorithm']}: allowed are {', '.join(ALGORITHMS)}"
        )
    arguments = {name: value for name, value in settings.items() if name not in OF_TRAINING}
    allowed = [field.name for field in fields(kind)]
    if unknown := [name for name in arguments if name not in allowed]:
        raise SystemExit(
            f"algorithm.settings.{unknown[0]}: {settings['algorithm']} has no such setting; it has "
            f"{', '.join([*OF_TRAINING, *allowed])}"
        )
    d3rlpy.seed(run.seed)
    device = run.configuration["compute"]["device"]
    learner = kind(**arguments, **_parts(run, recorded)).create(
        f"{device}:0" if device in {"cpu", "cuda"} else device
    )
    learner.create_impl(recorded.observations.shape[1:], recorded.actions.shape[1])
    return learner


def _parts(run: Trainer, recorded: Recorded) -> dict[str, Any]:
    """The networks, and what scales observations, actions and rewards."""
    settings, layers = run.settings, list(run.settings["layers"])
    parts = {
        "actor_encoder_factory": VectorEncoderFactory(layers),
        "critic_encoder_factory": VectorEncoderFactory(
            layers, use_layer_norm=settings["critic_layer_norm"]
        ),
        "action_scaler": MinMaxActionScaler(recorded.space.low, recorded.space.high),
    }
    if settings["algorithm"] == "IQL":
        parts["value_encoder_factory"] = VectorEncoderFactory(layers)
    if settings["actor_cosine"]:
        parts["actor_optim_factory"] = AdamFactory(
            lr_scheduler_factory=CosineAnnealingLRFactory(T_max=run.steps)
        )
    if settings["standard_observations"]:
        seen = recorded.observations[recorded.usable].astype(np.float64)
        mean, deviation = (part.astype(np.float32) for part in (seen.mean(0), seen.std(0)))
        parts["observation_scaler"] = StandardObservationScaler(mean, deviation)
    if settings["return_range"] is not None:
        low, high = min(recorded.returns), max(recorded.returns)
        if low == high:
            raise SystemExit(
                f"algorithm.settings.return_range: all episodes have the return {low:g}; set it to null"
            )
        parts["reward_scaler"] = ReturnBasedRewardScaler(high, low, settings["return_range"])
    return parts


def evaluate(run: Trainer, learner: Any, step: int, *, final: bool = False) -> None:
    """Play an evaluation of the policy in an environment of its own, with random numbers of its own."""
    environment = run.make_environment()
    space: Any = environment.action_space
    deterministic = run.configuration["budget"]["evaluation_deterministic"]
    choose = learner.predict if deterministic else learner.sample_action

    def act(observation: Any) -> Any:
        action = choose(np.asarray(observation, np.float32)[None])[0]
        return np.clip(action, space.low, space.high).astype(space.dtype)

    with torch.random.fork_rng():
        torch.manual_seed(run.evaluation(step, final=final)[0])
        run.evaluate(environment, act, step, final=final)
    environment.close()


def save(learner: Any, generator: np.random.Generator, path: Path) -> None:
    """Save the networks, the optimisers and every random generator."""
    networks = io.BytesIO()
    learner.impl.save_model(networks)
    state = {
        "networks": networks.getvalue(),
        "draws": generator.bit_generator.state,
        "tensors": torch.get_rng_state(),
        "devices": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    torch.save(state, path)


def restore(learner: Any, generator: np.random.Generator, path: Path, step: int) -> None:
    """Continue from a checkpoint."""
    # The file is this run's own, so that unpickling it executes no foreign code.
    state = torch.load(path, weights_only=False)
    learner.impl.load_model(io.BytesIO(state["networks"]))
    learner.set_grad_step(step)
    generator.bit_generator.state = state["draws"]
    torch.set_rng_state(state["tensors"])
    if state["devices"]:
        torch.cuda.set_rng_state_all(state["devices"])


def main() -> None:
    """Train and evaluate the run."""
    run = Trainer.of_run()
    recorded = Recorded.read(sys.argv[1])
    learner = untrained(run, recorded)
    generator = np.random.default_rng(run.configuration["seeds"]["actions"])
    saved = run.restored()
    if saved:
        restore(learner, generator, saved.path, saved.step)
    losses: dict[str, list[float]] = defaultdict(list)
    for step in range(saved.step + 1 if saved else 1, run.steps + 1):
        for name, value in learner.update(recorded.draw(learner.batch_size, generator)).items():
            losses[name].append(value)
        if step % REPORT_EVERY == 0:
            run.report(step, **{name: float(np.mean(values)) for name, values in losses.items()})
            losses.clear()
        if run.is_due(step):
            evaluate(run, learner, step)
        if step % run.settings["checkpoint_every"] == 0 and step < run.steps:
            run.checkpoint(step, lambda path: save(learner, generator, path))
    evaluate(run, learner, run.steps, final=True)


if __name__ == "__main__":
    main()
