"""Workspaces in git checkouts with runs that were trained from uncommitted code."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from finished_runs import TINY
from last_words import last_words
from samples import write_tree

from rlexp.app.execution.request import read_request
from rlexp.app.execution.run_process import execute
from rlexp.app.workspace import Workspace
from rlexp.store.layout import Layout, RunPaths
from rlexp.store.provenance import collect, read_code
from rlexp.store.runs import new_attempt, write_experiment, write_run

SETTINGS = (
    *TINY,
    "budget.final_episodes=3",
    "algorithm.n_steps=32",
    "algorithm.batch_size=16",
    "algorithm.n_epochs=1",
)
ENVIRONMENT = """\
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from {name}_constants import SCALE


class Drift(gym.Env):
    observation_space = gym.spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.length = self.np_random.uniform(-1.0, 1.0, 2), 0
        return self.place.astype(np.float32), {{}}

    def step(self, action):
        self.place = np.clip(self.place + self.np_random.uniform(-0.5, 0.5, 2), -9.0, 9.0)
        self.length += 1
        reward = float(SCALE * self.place[0]){more}
        return self.place.astype(np.float32), reward, False, self.length >= 10, {{}}


gym.register("{name}-v0", entry_point="{name}:Drift")
"""


@dataclass(frozen=True, slots=True)
class GitStudy:
    """A workspace in a git checkout, and the module that its runs import."""

    folder: Path
    module: str

    @property
    def study(self) -> Workspace:
        """The workspace, in which runs may import the module."""
        return Workspace(self.folder, Layout(self.folder / "runs"), (self.module,))

    def run(self) -> RunPaths:
        """The only run."""
        (run,) = self.study.experiment("tiny").runs()
        return run

    @property
    def name(self) -> str:
        """The name of the only run."""
        return f"tiny/{self.run().folder.name}"


def git(folder: Path, *words: str) -> str:
    """The output of git, independent of the machine's git settings."""
    variables = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "n",
        "GIT_AUTHOR_EMAIL": "n@example.org",
        "GIT_COMMITTER_NAME": "n",
        "GIT_COMMITTER_EMAIL": "n@example.org",
    }
    process = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True, env=variables
    )
    return process.stdout


def committed(folder: Path, module: str) -> GitStudy:
    """A checkout with one committed constant and uncommitted changes.

    The constant is 1 in the commit and 2 in the working tree; the environment is untracked.
    """
    write_tree(folder, {".gitignore": "runs/\n__pycache__/\nsecret.txt\n"})
    constants = folder / f"{module}_constants.py"
    constants.write_text("SCALE = 1.0\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    constants.write_text("SCALE = 2.0\n")
    return GitStudy(folder, module)


def trained(checkout: GitStudy, reward_term: str = "", *words: str) -> GitStudy:
    """Train a run with provenance in a study; `reward_term` is code that is added to the reward."""
    text = ENVIRONMENT.format(name=checkout.module, more=reward_term)
    (checkout.folder / f"{checkout.module}.py").write_text(text)
    train(
        checkout,
        "environment=gymnasium",
        f"environment.id={checkout.module}-v0",
        f"environment.imports=[{checkout.module}]",
        *words,
    )
    return checkout


def train(checkout: GitStudy, *words: str) -> None:
    """Train the runs of these overrides in this process."""
    request = read_request(last_words(*SETTINGS, *words), checkout.study)
    experiment = checkout.study.layout.experiment(request.experiment.name)
    write_experiment(experiment, request.experiment)
    code = read_code(checkout.folder)
    command = ("rlexp", "run", *words)
    handler = signal.getsignal(signal.SIGTERM)
    for _, spec in request.experiment.specs(request.phase):
        paths = experiment.run(spec.name)
        write_run(paths, spec)
        settings = {**request.budget.operational(), "allowed": [checkout.module]}
        provenance = collect(code, command, checkout.folder, os.environ)
        new_attempt(paths, settings, provenance, code.patch)
        try:
            execute([str(paths.folder), "1"])
        finally:
            signal.signal(signal.SIGTERM, handler)
