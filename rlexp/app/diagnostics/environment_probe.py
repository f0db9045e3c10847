"""Probes one environment, inside a process of its own: what it does there harms nobody."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.app.diagnostics.finding import fail, ok, warn
from rlexp.app.diagnostics.random_steps import WIDTH, Broken, Notes, play, tell
from rlexp.app.execution.compatibility import Spaces
from rlexp.config.validate import build
from rlexp.environments import Environment, Vector
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]
from copy import deepcopy
from time import perf_counter
from typing import Any

from rlexp.app.diagnostics.finding import Finding
from rlexp.app.diagnostics.random_steps import SECONDS, SEED, random_action

GAMMA = 0.99
"""Discount of normalised rewards: any would do."""
STARTS_AGAIN = "an interrupted run starts again from step 0, with the same numbers"
FIX = (
    "right for what cannot be repeated; else let reset() make everything anew, and draw all that "
    "is random from self.np_random"
)


def resumption(environment: Environment, notes: Notes) -> Finding:
    """Put the state of an environment into a fresh one, and see whether both go on alike.

    Raises:
        Broken: An error came out of it.
    """
    from rlexp.training.roundtrip import check_round_trip

    with notes.during("resume", "putting its state into another one"):
        steps = iter(range(1_000_000))
        reason = check_round_trip(
            environment,
            GAMMA,
            SEED,
            # Who waits for this process takes one that says nothing new for hung.
            beat=lambda: notes.doing(f"putting its state into another one, step {next(steps)}"),
        )
    if reason is None:
        return ok("resume", "interrupted runs continue bit for bit")
    return warn("resume", f"{STARTS_AGAIN}: {reason}", FIX)


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


SPACES = ("observation_space", "action_space")


def execute(words: list[str]) -> int:
    """Probe an environment.

    Args:
        words: A folder that holds `request.json`; what is found is written there.
    """
    folder = Path(words[0])
    request = json.loads((folder / "request.json").read_text())
    notes = Notes(folder)
    try:
        notes.doing("its configuration")
        probe(build(request["environment"], "environment", tuple(request["allowed"])), notes)
    except ConfigError as error:
        notes.found(fail("make", str(error), ""))
    except Broken as broken:
        notes.found(broken.finding)
    notes.done()
    return 0


def probe(environment: Environment, notes: Notes) -> None:
    """Make, play, close, repeat and resume an environment.

    Raises:
        ConfigError: It cannot be made.
        Broken: A check failed, and the next would make no sense.
    """
    with notes.during("make", "making it"):
        env = environment.make()
    notes.found(ok("make", environment.task))
    _look(env, environment.vector, notes)
    for finding in tell(play(env, notes), env):
        notes.found(finding)
    with notes.during("close", "close"):
        env.close()
    notes.found(ok("close", "works"))
    notes.found(compare(environment, notes))
    notes.found(resumption(environment, notes))


def _look(env: "Env", vector: Vector, notes: Notes) -> None:
    import gymnasium

    with notes.during("spaces", "reading its spaces"):
        pair = [getattr(env, name, None) for name in SPACES]
        for name, space in zip(SPACES, pair, strict=True):
            if not isinstance(space, gymnasium.Space):
                fix = "set it to a gymnasium.Space in the constructor"
                raise Broken("spaces", f"{name} is {space!r}", fix)
        notes.spaces(Spaces.of(env, vector))
    notes.found(ok("spaces", f"observations {_line(pair[0])}, actions {_line(pair[1])}"))
    if isinstance(pair[1], gymnasium.spaces.Box) and not pair[1].is_bounded():
        fix = "declare finite bounds: off-policy algorithms scale their actions to them"
        notes.found(warn("spaces", "actions have no bounds", fix))


def _line(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}…"
