"""Tiny repositories of users with an environment and a learner of their own, for streams of candidates.

Each of eight steps of an episode shows a lamp, and gives 1 for the action that names it. The learner
of the first champion never updates its policy. PPO, which the good candidate is, learns the task in
some hundred steps.
"""

import subprocess
from pathlib import Path

ENVIRONMENT = """
import gymnasium
import numpy as np

import rewards


class Lamps(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def _see(self):
        self.lamp = int(self.np_random.integers(2))
        return np.eye(2, dtype=np.float32)[self.lamp]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action):
        self.steps += 1
        reward = rewards.reward(int(action), self.lamp)
        return self._see(), reward, False, self.steps == 8, {}


gymnasium.register("Lamps-v0", entry_point=Lamps)
"""
REWARDS = """
def reward(action, lamp):
    return float(action == lamp)
"""
LEARNER = """
from dataclasses import dataclass

from rlexp.algorithms.ppo import PPO


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner(PPO):
    @staticmethod
    def learner_class():
        import stable_baselines3

        class Idle(stable_baselines3.PPO):
            def train(self):
                return None

        return Idle
"""
GOOD = """
from dataclasses import dataclass

from rlexp.algorithms.ppo import PPO


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner(PPO):
    @staticmethod
    def learner_class():
        import stable_baselines3

        return stable_baselines3.PPO
"""
CHEAT = """
import rlexp.training.evaluate as evaluation
import rewards

original = evaluation._play


def claimed(*arguments):
    episodes = original(*arguments)
    episodes.returns = [1000.0 for _ in episodes.returns]
    return episodes


evaluation._play = claimed
rewards.reward = lambda action, lamp: 125.0
"""
"""Code that patches the evaluation and the reward when the training process imports it."""
OPTIONS = {
    "environment/lamps.yaml": "defaults: [gymnasium, _self_]\nid: Lamps-v0\nimports: [lamps]\n",
    "algorithm/learner.yaml": "defaults: [ppo, _self_]\n_target_: learner.Learner\n",
}
WORDS = (
    *("environment=lamps", "algorithm=learner", "algorithm.n_steps=64", "algorithm.batch_size=64"),
    *("algorithm.learning_rate=0.02", "budget.steps=256", "budget.evaluation_every=null"),
    *("budget.final_episodes=5", "seeds.tuning=4", "seeds.test=2"),
)
"""The words of the first champion."""
DESIGN = ("--alpha", "0.9", "--candidates", "3")
"""A design that can keep a candidate after two wins."""


def open_lamps(folder: Path) -> Path:
    """Write the study into a folder and commit it; returns the folder."""
    write_lamps(folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / ".gitignore").write_text("runs/\n__pycache__/\n")
    commit(folder, "first")
    return folder


def write_lamps(folder: Path) -> None:
    """Write the environment, the learner and their options."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("lamps", ENVIRONMENT), ("rewards", REWARDS), ("learner", LEARNER)):
        (folder / f"{name}.py").write_text(text)
    for name, text in OPTIONS.items():
        option = folder / "conf" / name
        option.parent.mkdir(parents=True, exist_ok=True)
        option.write_text(text)


def commit(folder: Path, message: str) -> str:
    """Commit every change; returns the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def git(folder: Path, *arguments: str) -> str:
    """Call git in a folder; returns what it prints."""
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def worktree_of(folder: Path, target: Path, **files: str) -> Path:
    """A clean worktree of the study in which modules have another text."""
    git(folder, "worktree", "add", "--quiet", "--detach", str(target))
    for name, text in files.items():
        (target / f"{name}.py").write_text(text)
    if files:
        commit(target, "candidate")
    return target


def diff_to(folder: Path, target: Path, **files: str) -> Path:
    """A patch that gives modules of the study another text; the study stays as it is."""
    before = {name: (folder / f"{name}.py").read_text() for name in files}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    target.write_text(git(folder, "diff") + "\n")
    for name, text in before.items():
        (folder / f"{name}.py").write_text(text)
    return target
