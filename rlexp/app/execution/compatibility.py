"""Whether agent, algorithm and environment fit one another, asked before anything starts."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from rlexp.app.execution.external import check_external
from rlexp.app.workspace import Workspace
from rlexp.config.validate import Learning, Parts, build
from rlexp.environments import Vector
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical, short_name
from rlexp.protocol.seeds import Phase

if TYPE_CHECKING:
    import gymnasium
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

LIMIT = 120.0
"""Seconds that an answer may take."""
TIDYING = 5.0
"""Seconds that a child may take to end once it has answered."""


def ask_apart(
    what: str, question: Callable[[], Any], tidy: Callable[[], object] = lambda: None
) -> Any:
    """Return the answer, which is JSON values, of a question asked in a child process.

    Args:
        what: What the question is about, for the message.
        question: Asked in the child.
        tidy: Called in the child after the answer, for some seconds; what it does is no matter.

    Raises:
        ConfigError: The child raised an error, died or did not answer; says which.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(writing, question, tidy)
    os.close(writing)
    content = None
    try:
        content = _read(reading, time.monotonic() + LIMIT)
    finally:
        os.close(reading)
        status = _end(pid, TIDYING if content else 0.0)
    if not content:
        code = os.waitstatus_to_exitcode(status)
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        how = f"after {LIMIT:g} s without an answer" if content is None else how
        raise ConfigError(f"{what} ended the process that looked at it {how}")
    kind, value = json.loads(content)
    if kind == "error":
        raise ConfigError(value)
    return value


def _end(pid: int, patience: float) -> int:
    """Wait for a child to end, for a while, and kill it then; returns its status."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _answer(writing: int, question: Callable[[], Any], tidy: Callable[[], object]) -> None:
    try:
        content = ["answer", question()]
    except RlexpError as error:
        content = ["error", str(error)]
    except Exception as error:  # noqa: BLE001
        content = ["error", " ".join(f"{type(error).__name__}: {error}".split())]
    with os.fdopen(writing, "w") as file:
        json.dump(content, file)
    with suppress(BaseException):
        tidy()
    sys.stderr.flush()
    os._exit(0)


def _read(reading: int, deadline: float) -> bytes | None:
    """Everything until the end of the stream, or nothing when time is up."""
    content = b""
    while select.select([reading], [], [], max(deadline - time.monotonic(), 0))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return content
        content += part
    return None


NUMBERS = 12
"""Bytes of the reward, the end and the cut of a transition."""


def check_fit(
    configurations: Iterable[Configuration],
    workspace: Workspace,
    spaces: "dict[str, Spaces] | None" = None,
    parts: Mapping[str, Parts] | None = None,
) -> None:
    """Make each environment once, look at its spaces, and close it.

    Args:
        configurations: To be checked.
        workspace: Where they are from.
        spaces: Of environments that were looked at before; those looked at now are added.
        parts: The plug-ins of configurations, by their fingerprints, where they were built before.

    Raises:
        ConfigError: An environment does not exist, or an algorithm cannot learn on it.
        RecordError: A file that defines a run of a training script was edited.
    """
    workspace.make_importable()
    spaces = {} if spaces is None else spaces
    for configuration in configurations:
        if configuration.spec(Phase.TEST, 0, 0).external:
            check_external(configuration, workspace)
            continue
        built = (parts or {}).get(configuration.fingerprint) or _build(configuration, workspace)
        key = canonical(configuration.environment)
        if key not in spaces:
            spaces[key] = _spaces(configuration.task, built.environment)
        kind = short_name(configuration.agent)
        check_parts(built.agent, kind, built.algorithm, spaces[key], configuration.task)
        _check_rollout(configuration)


def _check_rollout(configuration: Configuration) -> None:
    """Refuse a budget that ends inside the first rollout, which is trained whole or not at all."""
    algorithm, steps = configuration.algorithm, configuration.budget.steps
    if "n_steps" not in algorithm or "buffer_size" in algorithm:
        return
    count = configuration.environment.get("vector", {}).get("count", 1)
    rollout = algorithm["n_steps"] * count
    if rollout > steps:
        raise ConfigError(
            f"budget.steps={steps} is less than one rollout (n_steps * environments = "
            f"{algorithm['n_steps']} * {count} = {rollout}): raise it, or lower algorithm.n_steps",
        )


@dataclass(frozen=True, slots=True)
class Spaces:
    """What an environment shows and takes, by the names of Gymnasium's spaces."""

    observation: tuple[str, ...]
    action: str
    environments: int
    masked: bool
    normalised: bool = False
    rewards_normalised: bool = False
    stacked: bool = False
    transition: int = 0
    """Bytes of a transition in a replay buffer."""

    @classmethod
    def of(cls, made: "gymnasium.Env[Any, Any]", vector: Vector) -> "Spaces":
        """Look at an environment that is vectorised so."""
        space = made.observation_space
        image = len(space.shape or ()) == 3 and space.dtype == "uint8"
        return cls(
            observation=(type(space).__name__, *(["Image"] if image else [])),
            action=type(made.action_space).__name__,
            environments=vector.count,
            masked=made.has_wrapper_attr("action_masks"),
            normalised=vector.normalise_observations,
            rewards_normalised=vector.normalise_rewards,
            stacked=vector.frame_stack > 1,
            transition=2 * max(vector.frame_stack, 1) * _bytes(space)
            + _bytes(made.action_space)
            + NUMBERS,
        )


def _bytes(space: Any) -> int:
    """Bytes of an element of a space, which may be made of several."""
    parts = getattr(space, "spaces", None)
    if parts:
        return sum(map(_bytes, parts.values() if isinstance(parts, Mapping) else parts))
    size: int = prod(space.shape or (1,)) * getattr(space.dtype, "itemsize", 4)
    return size


def _build(configuration: Configuration, workspace: Workspace) -> Learning:
    """The plug-ins of a configuration of which only the records are known."""
    environment = {**configuration.environment, "reference": configuration.reference}
    return Learning(
        agent=build(configuration.agent, "agent", workspace.allowed),
        algorithm=build(configuration.algorithm, "algorithm", workspace.allowed),
        environment=build(environment, "environment", workspace.allowed),
    )


def _spaces(task: str, environment: Any) -> Spaces:
    """The spaces of an environment, which is made in a process of its own."""
    made: list[gymnasium.Env[Any, Any]] = []

    def look() -> dict[str, Any]:
        try:
            made.append(environment.make())
            return asdict(Spaces.of(made[0], environment.vector))
        except RlexpError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(
                f"{task} cannot be made: {reason}; 'rlexp doctor --environment …' says more",
            ) from error

    def close() -> None:
        for one in made:
            one.close()

    # Some environments never come back from closing: the answer comes before.
    return Spaces(**ask_apart(task, look, close))


def check_parts(agent: Any, kind: str, algorithm: Any, spaces: Spaces, task: str) -> None:
    """Check that an agent and an algorithm fit an environment.

    Args:
        agent: What decides.
        kind: The agent's name.
        algorithm: How it learns.
        spaces: What the environment shows and takes.
        task: The environment's name.

    Raises:
        ConfigError: They do not; says why.
    """
    name = type(algorithm).__name__
    if spaces.action not in algorithm.actions:
        raise ConfigError(
            f"{name} cannot act on {task}: its actions are {spaces.action}, "
            f"{name} takes {' or '.join(algorithm.actions)}; choose another algorithm",
        )
    if agent.policy not in algorithm.policies:
        raise ConfigError(
            f"agent={kind} gives a {agent.policy}, which {name} does not have "
            f"(it has: {', '.join(algorithm.policies)}); choose another agent",
        )
    if not set(spaces.observation) & set(agent.observations):
        raise ConfigError(
            f"agent={kind} cannot read {task}: its observations are "
            f"{spaces.observation[-1]}, the agent reads {' or '.join(agent.observations)}; "
            "choose another agent",
        )
    if getattr(algorithm, "needs_masks", False) and not spaces.masked:
        raise ConfigError(
            f"{name} needs to know which actions are allowed, and {task} has no "
            "action_masks(); choose another algorithm, or wrap the environment",
        )
    for asked, key in (
        (spaces.normalised, "normalise_observations"),
        (spaces.stacked, "frame_stack"),
    ):
        if asked and not {"Box", "Dict"} & set(spaces.observation):
            raise ConfigError(
                f"environment.vector.{key} needs observations of numbers, and those of {task} are "
                f"{spaces.observation[-1]}; leave it out",
            )
    if spaces.stacked and hasattr(algorithm, "buffer_size"):
        _check_stack(name, spaces)
    algorithm.check(spaces.environments)


def _check_stack(name: str, spaces: Spaces) -> None:
    """Refuse what the library's off-policy learners mix up: they store what is not stacked."""
    if spaces.normalised or spaces.rewards_normalised:
        raise ConfigError(
            f"{name} cannot learn from frames that are stacked behind normalisation: set "
            "environment.vector.frame_stack=1 and add the wrapper FrameStackObservation, or "
            "normalise nothing",
        )
