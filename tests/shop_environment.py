"""An environment of a study that reports its own measures, and commands that train on it.

An episode has four steps. Each step costs the price of the shop, times a random number. The episode
succeeds if its cost stays below two.
"""

from pathlib import Path

MODULE = """
import gymnasium
import numpy as np


class Shop(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, price=1.0, silent=0):
        self.price, self.silent, self.episodes = price, silent, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.cost = 0, 0.0
        return self.np_random.random(1).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        self.cost += self.price * self.np_random.random()
        over = self.steps == 4
        info = {}
        if over:
            self.episodes += 1
            info["measures"] = {"cost": self.cost}
            if self.episodes != self.silent:
                info["measures"]["success"] = float(self.cost < 2)
        return self.np_random.random(1).astype(np.float32), float(action), False, over, info


gymnasium.register("Shop-v0", entry_point=Shop)
"""
OPTION = """
defaults: [gymnasium, _self_]
id: Shop-v0
imports: [shop]
arguments: {price: 1.0, silent: 0}
measures:
  success: {minimum: 0.0, maximum: 1.0}
  cost: {direction: minimise, minimum: 0.0, maximum: 20.0}
"""
SHOP = (
    *("environment=shop", "algorithm=ppo", "algorithm.n_steps=16", "algorithm.batch_size=16"),
    *("budget.steps=32", "budget.evaluation_every=16", "budget.evaluation_episodes=2"),
    *("budget.final_episodes=4", "executor.workers=1"),
)
"""Overrides of tiny runs in the shop."""


def open_shop(folder: Path) -> Path:
    """Write the environment and its option into a study; returns the folder."""
    option = folder / "conf" / "environment" / "shop.yaml"
    option.parent.mkdir(parents=True)
    option.write_text(OPTION)
    (folder / "shop.py").write_text(MODULE)
    return folder
