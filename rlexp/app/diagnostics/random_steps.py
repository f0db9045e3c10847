"""Takes random steps in an environment and checks all that they return."""

from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rlexp.app.checks.declaration import contradiction, result_fault
from rlexp.app.checks.notes import Broken, Notes
from rlexp.app.diagnostics.finding import Finding, ok, warn

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]

STEPS = 1000
"""Steps that are taken, if they are quick enough."""
SECONDS = 10.0
"""After which no further step is taken."""
SEED = 20_001


@dataclass(slots=True)
class Played:
    """What was met while playing."""

    step_seconds: list[float] = field(default_factory=list)
    reset_seconds: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    unfinished: int = 0
    casts: str | None = None


def play(env: "Env", notes: Notes) -> Played:
    """Play random episodes.

    Raises:
        Broken: Something is not as it was declared; names the step and the field.
    """
    played = Played()
    _reset(env, played, notes, "reset", SEED)
    env.action_space.seed(SEED)
    deadline = perf_counter() + SECONDS
    for number in range(STEPS):
        if perf_counter() > deadline:
            break
        if _step(env, played, notes, number):
            _reset(env, played, notes, f"reset after step {number}", None)
    return played


def random_action(env: "Env") -> Any:
    """A random action, of those that are allowed."""
    import gymnasium

    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete) and env.has_wrapper_attr("action_masks"):
        mask = np.asarray(env.get_wrapper_attr("action_masks")(), dtype=np.int8)
        return space.sample(mask=mask)
    return space.sample()


def tell(played: Played, env: "Env") -> list[Finding]:
    """Say what was met."""
    steps, rewards = len(played.rewards), played.rewards
    checked = (
        f"{steps:,} random steps: every observation is as declared, "
        f"every reward is a finite number ({min(rewards):g} … {max(rewards):g})"
    )
    fix = "declare the dtype that it returns, or cast to the one that is declared"
    each, reset = median(played.step_seconds), median(played.reset_seconds)
    speed = f"{_time(each)} a step (at most {1 / max(each, 1e-9):,.0f} steps per second)"
    return [
        ok("reset and step", checked),
        *([warn("observations", played.casts, fix)] if played.casts else []),
        _episodes(played, env),
        ok("speed", f"{speed}, {_time(reset)} a reset"),
    ]


def _reset(env: "Env", played: Played, notes: Notes, where: str, seed: int | None) -> None:
    with notes.during("reset", where):
        began = perf_counter()
        result: Any = env.reset(seed=seed)
        played.reset_seconds.append(perf_counter() - began)
        if not isinstance(result, tuple) or len(result) != 2:
            told = f"{where} returns a {type(result).__name__}, not a pair"
            raise Broken("reset", told, "return observation, info")
        _check("reset", env, result[0], where, played)


def _step(env: "Env", played: Played, notes: Notes, number: int) -> bool:
    """Take one step; returns whether it ended an episode."""
    where = f"step {number}"
    with notes.during("step", where):
        action = random_action(env)
        began = perf_counter()
        result: Any = env.step(action)
        played.step_seconds.append(perf_counter() - began)
        if fault := result_fault(result):
            raise Broken("step", f"{where}: {fault[0]}", fault[1])
        _check("step", env, result[0], where, played)
    played.rewards.append(float(result[1]))
    played.unfinished += 1
    if not (result[2] or result[3]):
        return False
    played.lengths.append(played.unfinished)
    played.unfinished = 0
    return True


def _check(check: str, env: "Env", observation: Any, where: str, played: Played) -> None:
    found = contradiction(observation, env.observation_space, "observation")
    if found is None:
        return
    if not found.harmless:
        raise Broken(check, f"{where}: {found.detail}", found.fix)
    played.casts = played.casts or f"{where}: {found.detail}"


def _episodes(played: Played, env: "Env") -> Finding:
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if played.lengths:
        shortest, longest = min(played.lengths), max(played.lengths)
        return ok(
            "episodes", f"{len(played.lengths)} ended, after {shortest:,} … {longest:,} steps"
        )
    told = f"none ended in {played.unfinished:,} steps"
    if limit is not None:
        return ok("episodes", f"{told}; they are cut after {limit:,}")
    return warn(
        "episodes",
        f"{told}, and nothing cuts them",
        "set environment.max_episode_steps: an evaluation waits for episodes to end",
    )


def _time(seconds: float) -> str:
    for unit, scale in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"
