"""Whether equal seeds give equal trajectories."""

from copy import deepcopy
from time import perf_counter
from typing import Any

from rlexp.app.checks.notes import Broken, Notes
from rlexp.app.diagnostics.finding import Finding, ok, warn
from rlexp.app.diagnostics.random_steps import SECONDS, SEED, random_action
from rlexp.environments import Environment

STEPS = 100
"""Steps that are compared, if they are quick enough and the episode lasts."""
ANOTHER = SEED + 1

Trajectory = list[tuple[Any, ...]]
"""The first observation; then observation, reward, terminated and truncated of each step."""


def compare(environment: Environment, notes: Notes) -> Finding:
    """Compare trajectories of fresh environments, which know nothing of one another.

    Raises:
        Broken: Equal seeds and actions give different trajectories; says where.
    """
    first, again, other = (_trajectory(environment, seed, notes) for seed in (SEED, SEED, ANOTHER))
    steps = min(len(first), len(again)) - 1
    if place := difference(first, again):
        raise Broken(
            "seeding",
            f"reset(seed={SEED}) twice, and the same actions: {place}",
            "draw all that is random from self.np_random, which reset(seed=…) seeds",
        )
    if difference(first, other):
        return ok("seeding", f"equal over {steps} steps for equal seeds, different for others")
    return warn(
        "seeding",
        f"another seed changes nothing in {steps} steps",
        "right if nothing in it is random; else let reset(seed=…) seed it",
    )


def difference(first: Trajectory, second: Trajectory) -> str | None:
    """Where two trajectories differ, or nothing."""
    from gymnasium.utils.env_checker import data_equivalence

    names = ("observations", "rewards", "terminated", "truncated")
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        for name, a, b in zip(names, one, other, strict=False):
            if not data_equivalence(a, b, exact=True):
                return f"{name} differ at {f'step {number - 1}' if number else 'reset'}"
    return None


def _trajectory(environment: Environment, seed: int, notes: Notes) -> Trajectory:
    """What a fresh environment returns for a seed, the random actions always being the same."""
    with notes.during("seeding", "making another one"):
        env = environment.make()
    deadline = perf_counter() + SECONDS
    with notes.during("seeding", f"reset(seed={seed}) of another one"):
        found: Trajectory = [(deepcopy(env.reset(seed=seed)[0]),)]
    env.action_space.seed(SEED)
    for number in range(STEPS):
        with notes.during("seeding", f"step {number} of another one"):
            result = env.step(random_action(env))
        found.append(deepcopy(result[:4]))
        if result[2] or result[3] or perf_counter() > deadline:
            break
    with notes.during("seeding", "close of another one"):
        env.close()
    return found
