"""An environment with a vector reward, and commands that train on it.

An episode has four steps. Action 1 gains one and costs one, action 0 does neither.
"""

from pathlib import Path

MODULE = """
import gymnasium
import numpy as np


class Trade(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    reward_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        reward = np.array([action, -float(action)], np.float32)
        return np.ones(1, np.float32), reward, False, self.steps == 4, {}


gymnasium.register("Trade-v0", entry_point=Trade)
"""
OPTION = """
defaults: [multi_objective, _self_]
id: Trade-v0
imports: [trade]
weights: [1.0, 0.5]
objectives: [gain, saving]
"""
TRADE = (
    *("environment=trade", "algorithm=ppo", "algorithm.n_steps=64", "algorithm.batch_size=32"),
    *("algorithm.learning_rate=0.02", "algorithm.n_epochs=4", "budget.steps=256"),
    *("budget.evaluation_every=null", "budget.final_episodes=2", "executor.workers=1"),
)
"""Overrides of tiny runs that learn which action pays."""
WEIGHTS = "environment.weights=[1,0],[0.5,1],[0,1]"


def open_trade(folder: Path) -> Path:
    """Write the environment and its option into a study; returns the folder."""
    option = folder / "conf" / "environment" / "trade.yaml"
    option.parent.mkdir(parents=True)
    option.write_text(OPTION)
    (folder / "trade.py").write_text(MODULE)
    return folder
