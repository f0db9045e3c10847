"""Processor time of evaluations on classic control: played at once, beside alternating calls.

Both sides use every shortcut, and play the same episodes with the same policy, turn by turn in one process. One side calls
`predict` and `step` for each step. The other one plays until an episode ends, and makes nothing that only a
caller of `step` would read. The returns must be equal, or the program ends.

`python benchmarks/evaluations.py` prints the median ratio of each row, with the least and the most, and writes
`benchmarks/results/evaluations.json`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from lean import Row, spec_of
from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.app.execution.run_process import assemble
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.training import evaluate
from rlexp.training.evaluate import Episodes, Evaluator
from rlexp.training.lean.learner import shortcuts_of
from rlexp.training.lean.registry import SHORTCUTS
from rlexp.training.parts import Training

RESULTS = Path(__file__).parent / "results" / "evaluations.json"
EVERY_SHORTCUT = frozenset(shortcut.name for shortcut in SHORTCUTS)
ROWS: Mapping[str, tuple[str, str, int]] = {
    # An untrained policy ends the episodes of CartPole after some ten steps.
    "PPO on CartPole": ("ppo", "cartpole", 20_480),
    "PPO on Acrobot": ("ppo", "acrobot", 0),
    "DQN on MountainCar": ("dqn", "mountain_car", 0),
    "SAC on Pendulum": ("sac", "pendulum", 0),
}
"""Algorithm, task, and the steps for which the policy is trained before."""


def played(training: Training, model: BaseAlgorithm) -> tuple[float, Episodes]:
    """Processor seconds of an evaluation of 20 episodes, and the episodes."""
    with ExitStack() as stack:
        evaluator = Evaluator(training.environment, EVALUATION_ENVIRONMENTS, at_once=True)
        stack.enter_context(closing(evaluator))
        stack.enter_context(shortcuts_of(model, EVERY_SHORTCUT))
        begun = time.process_time()
        episodes = evaluator.evaluate(
            model,
            seeds=range(EVALUATION_ENVIRONMENTS),
            sampling=0,
            episodes=20,
            deterministic=True,
            beat=lambda: None,
        )
        return time.process_time() - begun, episodes


def measure(algorithm: str, task: str, steps: int, turns: int) -> dict[str, Any]:
    """The ratios of the turns, and the microseconds of a step of all environments."""
    words = (f"algorithm={algorithm}", f"environment={task}")
    training = assemble(spec_of(Row(words, steps=20_480, aim=0)))
    with tempfile.TemporaryDirectory() as folder:
        model = training.build(Path(folder))
        assert model.env is not None
        with closing(model.env):
            if steps:
                with shortcuts_of(model, EVERY_SHORTCUT):
                    model.learn(steps)
            seconds: dict[str, list[float]] = {"calls": [], "at once": []}
            returns = set()
            for _ in range(turns):
                with patch.object(evaluate, "prediction_in_use", lambda _: None):
                    taken, episodes = played(training, model)
                seconds["calls"].append(taken)
                returns.add(tuple(episodes.returns))
                taken, episodes = played(training, model)
                seconds["at once"].append(taken)
                returns.add(tuple(episodes.returns))
    if len(returns) != 1:
        raise SystemExit(f"{algorithm} on {task}: the returns differ")
    ratios = [c / o for c, o in zip(seconds["calls"], seconds["at once"], strict=True)]
    return {"ratios": ratios, "seconds": seconds, "steps": sum(episodes.lengths)}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {title: measure(*row, options.turns) for title, row in ROWS.items()}
    for title, result in results.items():
        ratios = result["ratios"]
        print(
            f"{title}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
            f"{result['steps']:,} steps"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
