"""Takes random steps in an environment and checks every value that they return."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import numpy as np

from rlexp.app.diagnostics.finding import Finding, fail, ok, warn
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]
    Space = gymnasium.Space[Any]

WIDTH = 200
"""Characters of a description of the current operation."""


class ProbeFailed(Exception):  # noqa: N818
    """A check failed, and the environment cannot be probed any further."""

    def __init__(self, check: str, detail: str, fix: str = "") -> None:
        super().__init__(detail)
        self.finding = fail(check, detail, fix)


class ProbeLog:
    """Writes the findings, and the current operation, to files that the parent process reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = os.open(folder / "now", os.O_RDWR | os.O_CREAT)

    @contextmanager
    def during(self, check: str, what: str) -> Iterator[None]:
        """Run an operation that may fail, crash or hang.

        Raises:
            ProbeFailed: The operation raised an error; names the error and its line.
        """
        self.doing(what)
        try:
            yield
        except (ProbeFailed, ConfigError):
            raise
        # An environment may call sys.exit.
        except (Exception, SystemExit) as error:
            error_text = f"{type(error).__name__}: {error}{_error_location(error)}"
            raise ProbeFailed(check, f"{what} raises {error_text}") from error

    def doing(self, what: str) -> None:
        """Write the current operation; if it never ends, the parent process reports it."""
        # One write of fixed width: the parent never reads a mixture of two texts.
        os.pwrite(self._now, what.encode()[:WIDTH].ljust(WIDTH), 0)

    def add(self, finding: Finding) -> None:
        """Append a finding."""
        with (self._folder / "findings.jsonl").open("a") as file:
            file.write(json.dumps(asdict(finding)) + "\n")

    def spaces(self, spaces: EnvironmentSpaces) -> None:
        """Write the environment's spaces, with which algorithms must be compatible."""
        (self._folder / "spaces.json").write_text(json.dumps(asdict(spaces)))

    def done(self) -> None:
        """Mark the probe as complete."""
        (self._folder / "done").touch()


def _error_location(error: BaseException) -> str:
    """The line of code that raised an error, as text."""
    frames = extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


FLAGS = ("terminated", "truncated")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A contradiction between a value and its space; a harmless one is removed by a cast."""

    detail: str
    fix: str
    harmless: bool = False


def result_fault(result: object) -> tuple[str, str] | None:
    """The fault in a step's result other than its observation, and its remedy; or None."""
    if not isinstance(result, tuple) or len(result) != 5:
        count = len(result) if isinstance(result, tuple) else f"a {type(result).__name__}"
        return (
            f"returns {count}{' values' if isinstance(count, int) else ''}, not five",
            "return observation, reward, terminated, truncated, info",
        )
    _, reward, terminated, truncated, info = result
    if fault := _reward_fault(reward):
        return fault, "return one finite number as the reward"
    for name, flag in zip(FLAGS, (terminated, truncated), strict=True):
        if not isinstance(flag, bool | np.bool_):
            return f"{name} is {flag!r}, a {type(flag).__name__}", "return True or False"
    if not isinstance(info, dict):
        return f"info is a {type(info).__name__}", "return a dictionary, which may be empty"
    return None


def _reward_fault(reward: Any) -> str | None:
    if np.ndim(reward) != 0:
        return f"reward has shape {np.shape(reward)}"
    try:
        number = float(reward)
    except (TypeError, ValueError):
        return f"reward is {reward!r}, a {type(reward).__name__}"
    return None if math.isfinite(number) else f"reward is {number}"


def contradiction(value: Any, space: "Space", path: str) -> Contradiction | None:
    """The contradiction between a value and its space, with the field; or None."""
    import gymnasium

    if isinstance(space, gymnasium.spaces.Dict):
        if not isinstance(value, dict) or set(value) != set(space.spaces):
            keys = sorted(value) if isinstance(value, dict) else type(value).__name__
            return Contradiction(
                f"{path} has {keys}, declared is {sorted(space.spaces)}", "return every key"
            )
        return _first([(value[k], s, f"{path}[{k!r}]") for k, s in space.spaces.items()])
    if isinstance(space, gymnasium.spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            return Contradiction(f"{path} is not a tuple of {len(space.spaces)}", "return one")
        pairs = enumerate(zip(value, space.spaces, strict=True))
        return _first([(v, s, f"{path}[{i}]") for i, (v, s) in pairs])
    return _leaf(value, space, path)


def _first(parts: list[tuple[Any, "Space", str]]) -> Contradiction | None:
    contradictions = [c for part in parts if (c := contradiction(*part)) is not None]
    # A harmful contradiction is more important than a harmless one.
    return min(contradictions, key=lambda c: c.harmless, default=None)


def _leaf(value: Any, space: "Space", path: str) -> Contradiction | None:
    import gymnasium

    array = np.asarray(value)
    if space.shape is not None and array.shape != space.shape:
        detail = f"{path} has shape {array.shape}, declared is {space.shape}"
        return Contradiction(detail, "return that shape, or declare this one")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return Contradiction(_at(array, ~np.isfinite(array), path), "return finite numbers")
    # `Box.contains` warns about values that are not arrays; a possible cast is reported below.
    if space.contains(array if isinstance(space, gymnasium.spaces.Box) else value):
        return None
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        return Contradiction(f"{path} is {value!r}, outside {space}", "declare what it returns")
    outside = (array < low) | (array > high)
    if outside.any():
        detail = f"{_at(array, outside, path)}, outside {_bounds(low, high, outside)}"
        return Contradiction(detail, "declare the bounds that it keeps")
    detail = f"{path} has dtype {array.dtype}, declared is {space.dtype}"
    return Contradiction(detail, "", harmless=True)


def _at(array: Any, mask: Any, path: str) -> str:
    index = tuple(int(i) for i in np.argwhere(mask)[0])
    return f"{path}{list(index) or ''} is {array[index]}"


def _bounds(low: Any, high: Any, mask: Any) -> str:
    index = tuple(np.argwhere(mask)[0])
    return f"{low[index]} … {high[index]}"


STEPS = 1000
"""Largest number of steps."""
SECONDS = 10.0
"""Seconds after which no further step is taken."""
SEED = 20_001


@dataclass(slots=True)
class PlayStatistics:
    """Statistics of the random steps."""

    step_seconds: list[float] = field(default_factory=list)
    reset_seconds: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    unfinished: int = 0
    casts: str | None = None


def play(env: "Env", log: ProbeLog) -> PlayStatistics:
    """Play random episodes and check every returned value.

    Raises:
        ProbeFailed: A value contradicts its declaration; names the step and the field.
    """
    played = PlayStatistics()
    _reset(env, played, log, "reset", SEED)
    env.action_space.seed(SEED)
    deadline = perf_counter() + SECONDS
    for number in range(STEPS):
        if perf_counter() > deadline:
            break
        if _step(env, played, log, number):
            _reset(env, played, log, f"reset after step {number}", None)
    return played


def random_action(env: "Env") -> Any:
    """A random action that the environment's mask allows."""
    import gymnasium

    space = env.action_space
    # Masks of a MultiDiscrete space are one flat array; Gymnasium wants a tuple of arrays.
    if isinstance(space, gymnasium.spaces.Discrete) and env.has_wrapper_attr("action_masks"):
        mask = np.asarray(env.get_wrapper_attr("action_masks")(), dtype=np.int8)
        return space.sample(mask=mask)
    return space.sample()


def summarise_play(played: PlayStatistics, env: "Env") -> list[Finding]:
    """Turn the statistics into findings."""
    steps, rewards = len(played.rewards), played.rewards
    checked = (
        f"{steps:,} random steps: every observation matches its space, "
        f"every reward is a finite number ({min(rewards):g} … {max(rewards):g})"
    )
    fix = "declare the dtype that it returns, or cast to the declared one"
    each, reset = median(played.step_seconds), median(played.reset_seconds)
    # A coarse clock may measure 0 seconds for a step.
    speed = f"{_time(each)} a step (at most {1 / max(each, 1e-9):,.0f} steps per second)"
    return [
        ok("reset and step", checked),
        *([warn("observations", played.casts, fix)] if played.casts else []),
        _episodes(played, env),
        ok("speed", f"{speed}, {_time(reset)} a reset"),
    ]


def _reset(
    env: "Env", played: PlayStatistics, log: ProbeLog, where: str, seed: int | None
) -> None:
    with log.during("reset", where):
        began = perf_counter()
        result: Any = env.reset(seed=seed)
        played.reset_seconds.append(perf_counter() - began)
        if not isinstance(result, tuple) or len(result) != 2:
            fault = f"{where} returns a {type(result).__name__}, not a pair"
            raise ProbeFailed("reset", fault, "return observation, info")
        _check("reset", env, result[0], where, played)


def _step(env: "Env", played: PlayStatistics, log: ProbeLog, number: int) -> bool:
    """Take one step; returns whether it ended an episode."""
    where = f"step {number}"
    with log.during("step", where):
        action = random_action(env)
        began = perf_counter()
        result: Any = env.step(action)
        played.step_seconds.append(perf_counter() - began)
        if fault := result_fault(result):
            raise ProbeFailed("step", f"{where}: {fault[0]}", fault[1])
        _check("step", env, result[0], where, played)
    played.rewards.append(float(result[1]))
    played.unfinished += 1
    if not (result[2] or result[3]):
        return False
    played.lengths.append(played.unfinished)
    played.unfinished = 0
    return True


def _check(check: str, env: "Env", observation: Any, where: str, played: PlayStatistics) -> None:
    mismatch = contradiction(observation, env.observation_space, "observation")
    if mismatch is None:
        return
    if not mismatch.harmless:
        raise ProbeFailed(check, f"{where}: {mismatch.detail}", mismatch.fix)
    played.casts = played.casts or f"{where}: {mismatch.detail}"


def _episodes(played: PlayStatistics, env: "Env") -> Finding:
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if played.lengths:
        shortest, longest = min(played.lengths), max(played.lengths)
        return ok(
            "episodes", f"{len(played.lengths)} ended, after {shortest:,} … {longest:,} steps"
        )
    summary = f"none ended in {played.unfinished:,} steps"
    if limit is not None:
        return ok("episodes", f"{summary}; they are cut after {limit:,}")
    return warn(
        "episodes",
        f"{summary}, and no time limit cuts them",
        "set environment.max_episode_steps: an evaluation waits for episodes to end",
    )


def _time(seconds: float) -> str:
    for unit, scale in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"
