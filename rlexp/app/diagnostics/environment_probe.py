"""Probes one environment inside a separate process, which its errors may end.

`execute` is the entry; `probe` makes, steps, closes, repeats and resumes the environment.
"""

import json
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rlexp.app.diagnostics.finding import Finding, fail, ok, warn
from rlexp.app.diagnostics.random_steps import (
    SECONDS,
    SEED,
    WIDTH,
    ProbeFailed,
    ProbeLog,
    play,
    random_action,
    summarise_play,
)
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.config.validate import build
from rlexp.environments import Environment, Vector
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]


def execute(arguments: list[str]) -> int:
    """Probe an environment.

    Args:
        arguments: A folder that holds `request.json`, and that receives the findings.
    """
    folder = Path(arguments[0])
    request = json.loads((folder / "request.json").read_text())
    log = ProbeLog(folder)
    try:
        log.doing("its configuration")
        probe(build(request["environment"], "environment", tuple(request["allowed"])), log)
    except ConfigError as error:
        log.add(fail("make", str(error), ""))
    except ProbeFailed as broken:
        log.add(broken.finding)
    log.done()
    return 0


def probe(environment: Environment, log: ProbeLog) -> None:
    """Make, play, close, repeat and resume an environment.

    Raises:
        ConfigError: The environment cannot be made.
        ProbeFailed: A check failed, so that the next ones would make no sense.
    """
    with log.during("make", "making it"):
        env = environment.make()
    log.add(ok("make", environment.task))
    _check_spaces(env, environment.vector, log)
    for finding in summarise_play(play(env, log), env):
        log.add(finding)
    with log.during("close", "close"):
        env.close()
    log.add(ok("close", "works"))
    log.add(check_seeding(environment, log))
    log.add(check_resuming(environment, log))


GAMMA = 0.99
"""Discount of normalised rewards; its value does not matter here."""
STARTS_AGAIN = "an interrupted run starts again from step 0, with the same numbers"
FIX = (
    "right for an environment that cannot be repeated; else let reset() restore everything, and "
    "draw all random numbers from self.np_random"
)


def check_resuming(environment: Environment, log: ProbeLog) -> Finding:
    """Check that the state of an environment can be restored in a fresh one, which then continues alike.

    Raises:
        ProbeFailed: The environment raised an error.
    """
    from rlexp.training.replay_check import check_round_trip

    with log.during("resume", "restoring its state in another one"):
        steps = iter(range(1_000_000))
        reason = check_round_trip(
            environment,
            GAMMA,
            SEED,
            # The parent process counts a probe as hung if its log does not change.
            beat=lambda: log.doing(f"restoring its state in another one, step {next(steps)}"),
        )
    if reason is None:
        return ok("resume", "interrupted runs continue bit for bit")
    return warn("resume", f"{STARTS_AGAIN}: {reason}", FIX)


STEPS = 100
"""Largest number of steps that are compared."""
ANOTHER = SEED + 1

Trajectory = list[tuple[Any, ...]]
"""The first observation; then observation, reward, terminated and truncated of each step."""


def check_seeding(environment: Environment, log: ProbeLog) -> Finding:
    """Check that equal seeds give equal trajectories, and that another seed gives another one.

    Raises:
        ProbeFailed: Equal seeds and actions give different trajectories; says where.
    """
    first, again, other = (_trajectory(environment, seed, log) for seed in (SEED, SEED, ANOTHER))
    steps = min(len(first), len(again)) - 1
    if location := first_difference(first, again):
        raise ProbeFailed(
            "seeding",
            f"reset(seed={SEED}) twice, and the same actions: {location}",
            "draw all random numbers from self.np_random, which reset(seed=…) seeds",
        )
    if first_difference(first, other):
        return ok("seeding", f"equal over {steps} steps for equal seeds, different for others")
    return warn(
        "seeding",
        f"another seed changes nothing in {steps} steps",
        "right if the environment is deterministic; else let reset(seed=…) seed it",
    )


def first_difference(first: Trajectory, second: Trajectory) -> str | None:
    """The first difference between two trajectories as text, or None."""
    from gymnasium.utils.env_checker import data_equivalence

    names = ("observations", "rewards", "terminated", "truncated")
    for number, (first_entry, second_entry) in enumerate(zip(first, second, strict=False)):
        for name, first_value, second_value in zip(names, first_entry, second_entry, strict=False):
            if not data_equivalence(first_value, second_value, exact=True):
                return f"{name} differ at {f'step {number - 1}' if number else 'reset'}"
    return None


def _trajectory(environment: Environment, seed: int, log: ProbeLog) -> Trajectory:
    """What a fresh environment returns for a seed; the random actions are always the same."""
    with log.during("seeding", "making another one"):
        env = environment.make()
    deadline = perf_counter() + SECONDS
    with log.during("seeding", f"reset(seed={seed}) of another one"):
        trajectory: Trajectory = [(deepcopy(env.reset(seed=seed)[0]),)]
    # The same actions for both seeds, so that a difference can only come from the environment.
    env.action_space.seed(SEED)
    for number in range(STEPS):
        with log.during("seeding", f"step {number} of another one"):
            result = env.step(random_action(env))
        # A copy, because an environment may return the same array at every step.
        trajectory.append(deepcopy(result[:4]))
        if result[2] or result[3] or perf_counter() > deadline:
            break
    with log.during("seeding", "close of another one"):
        env.close()
    return trajectory


SPACES = ("observation_space", "action_space")


def _check_spaces(env: "Env", vector: Vector, log: ProbeLog) -> None:
    import gymnasium

    with log.during("spaces", "reading its spaces"):
        pair = [getattr(env, name, None) for name in SPACES]
        for name, space in zip(SPACES, pair, strict=True):
            if not isinstance(space, gymnasium.Space):
                fix = "set it to a gymnasium.Space in the constructor"
                raise ProbeFailed("spaces", f"{name} is {space!r}", fix)
        log.spaces(EnvironmentSpaces.of(env, vector))
    log.add(ok("spaces", f"observations {_line(pair[0])}, actions {_line(pair[1])}"))
    if isinstance(pair[1], gymnasium.spaces.Box) and not pair[1].is_bounded():
        fix = "declare finite bounds: off-policy algorithms scale their actions to them"
        log.add(warn("spaces", "actions have no bounds", fix))


def _line(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}…"
