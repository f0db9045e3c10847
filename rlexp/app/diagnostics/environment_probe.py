"""Probes one environment, inside a process of its own: what it does there harms nobody."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.app.checks.notes import WIDTH, Broken, Notes
from rlexp.app.checks.resuming import resumption
from rlexp.app.checks.seeding import compare
from rlexp.app.diagnostics.finding import fail, ok, warn
from rlexp.app.diagnostics.random_steps import play, tell
from rlexp.app.execution.compatibility import Spaces
from rlexp.config.validate import build
from rlexp.environments import Environment, Vector
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]

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
