"""Compares the updates of a recipe with those of d3rlpy itself: DATASET SETTINGS, the latter as JSON.

The Python of the recipe's virtual environment executes it. It ends with an error where a transition, a loss
or an action differs.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.dataset import MDPDataset, TransitionMiniBatch
from d3rlpy.dataset.transition_pickers import BasicTransitionPicker
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.optimizers import AdamFactory
from d3rlpy.optimizers.lr_schedulers import CosineAnnealingLRFactory
from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler
from minari.dataset.minari_storage import MinariStorage

from rlexp.recipes import train_with_d3rlpy as recipe

UPDATES = 50
path, settings = sys.argv[1], json.loads(sys.argv[2])
storage = MinariStorage.read(path)
episodes = list(storage.get_episodes(range(storage.total_episodes)))


def rows(name: str) -> np.ndarray:
    """The values of all steps, one row each."""
    return np.concatenate([e[name][: len(e["rewards"])] for e in episodes]).astype(np.float32)


dataset = MDPDataset(
    rows("observations"), rows("actions"), rows("rewards"), rows("terminations"),
    timeouts=rows("truncations"),
)  # fmt: skip
picker = BasicTransitionPicker()
transitions = [picker(e, i) for e in dataset.episodes for i in range(e.transition_count)]
recorded = recipe.Recorded.read(path)


class Every:
    """In place of a random generator: each transition once, in order."""

    def integers(self, count: int, size: int) -> np.ndarray:
        """The numbers from 0 to `count`."""
        assert count == size
        return np.arange(count)


every: Any = Every()
batch = recorded.draw(len(transitions), every)
for name in ("observations", "actions", "rewards", "next_observations", "next_actions"):
    expected = np.array([getattr(t, name.removesuffix("s")) for t in transitions])
    assert np.array_equal(expected, getattr(batch, name)), name
assert np.array_equal([t.terminal for t in transitions], batch.terminals[:, 0])

run: Any = SimpleNamespace(
    seed=3, steps=UPDATES, settings=settings, configuration={"compute": {"device": "cpu"}}
)
learner = recipe.untrained(run, recorded)
arguments = {k: v for k, v in settings.items() if k not in recipe.OF_TRAINING}
layers = settings["layers"]
arguments["actor_encoder_factory"] = VectorEncoderFactory(layers)
arguments["critic_encoder_factory"] = VectorEncoderFactory(
    layers, use_layer_norm=settings["critic_layer_norm"]
)
if settings["algorithm"] == "IQL":
    arguments["value_encoder_factory"] = VectorEncoderFactory(layers)
if settings["actor_cosine"]:
    schedule = CosineAnnealingLRFactory(T_max=UPDATES)
    arguments["actor_optim_factory"] = AdamFactory(lr_scheduler_factory=schedule)
if settings["standard_observations"]:
    scaler = StandardObservationScaler()
    scaler.fit_with_transition_picker(dataset.episodes, picker)
    mine = learner.config.observation_scaler
    assert np.allclose(scaler.mean, mine.mean, rtol=1e-5, atol=1e-6)
    assert np.allclose(scaler.std, mine.std, rtol=1e-5, atol=1e-6)
    # The library adds the same numbers in another order, which changes the last digit.
    arguments["observation_scaler"] = StandardObservationScaler(mine.mean, mine.std)
d3rlpy.seed(run.seed)
bare = getattr(d3rlpy.algos, f"{settings['algorithm']}Config")(
    **arguments,
    action_scaler=MinMaxActionScaler(storage.action_space.low, storage.action_space.high),
).create("cpu:0")
bare.build_with_dataset(dataset)

losses: list[list[Any]] = []
for updated in (learner, bare):
    generator = np.random.default_rng(0)
    torch.manual_seed(5)
    losses.append([])
    for _ in range(UPDATES):
        if updated is learner:
            drawn = recorded.draw(learner.batch_size, generator)
        else:
            numbers = generator.integers(len(transitions), size=learner.batch_size)
            drawn = TransitionMiniBatch.from_transitions([transitions[k] for k in numbers])
        losses[-1].append(updated.update(drawn))
assert losses[0] == losses[1]
assert np.array_equal(
    learner.predict(batch.observations[:64]), bare.predict(batch.observations[:64])
)
