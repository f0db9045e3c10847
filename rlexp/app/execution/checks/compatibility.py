"""Checks that agent, algorithm and environment are compatible, before any run starts.

`check_compatibility` is the entry: it makes each environment once, in a child process, and compares
its spaces with what the algorithm and the agent declare.
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Self

from rlexp.agents.networks import network_schedules
from rlexp.algorithms import BringsEnvironments, shown_name
from rlexp.app.execution.checks.callback_checks import check_callbacks, refuse_callbacks
from rlexp.app.execution.checks.dataset_checks import check_dataset, check_learner
from rlexp.app.execution.checks.replay_checks import check_algorithm, refuse_replay_of_script
from rlexp.app.execution.checks.score_measures import (
    check_reported,
    measures_of_an_episode,
    uncertain_measures,
)
from rlexp.app.execution.checks.script_declarations import check_declarations, refuse_declarations
from rlexp.app.execution.scripts.external import check_external
from rlexp.app.workspace import Workspace
from rlexp.config.validate import LearningPlugIns, PlugIns, build
from rlexp.environments import Environment, Vector
from rlexp.errors import ConfigError, RlexpError
from rlexp.executors.lifetime import fork_under_guard, kill_guarded
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical, short_name
from rlexp.protocol.seeds import Phase

if TYPE_CHECKING:
    import gymnasium


SCALAR_BYTES = 12
"""Bytes of the reward, the termination flag and the truncation flag of a transition."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpaces:
    """Observation and action spaces of an environment, by the names of Gymnasium's spaces.

    Attributes:
        observation: Name of the observation space, and `Image` where observations are images.
        action: Name of the action space.
        environments: Environments of the vector.
        masked: Whether the environment says which actions are allowed.
        normalised: Whether observations are normalised.
        rewards_normalised: Whether rewards are normalised.
        stacked: Whether an observation holds several frames.
        transition: Bytes of a transition in a replay buffer.
        measures: Measures that an episode reported; None if none was played, or none could be.
        played: Whether an episode was played to find out.
        frame: Bytes of an observation, with all its stacked frames.
        light: Whether the task is one of Gymnasium's, whose steps take less than a millisecond.
    """

    observation: tuple[str, ...]
    action: str
    environments: int
    masked: bool
    normalised: bool = False
    rewards_normalised: bool = False
    stacked: bool = False
    transition: int = 0
    measures: tuple[str, ...] | None = None
    played: bool = False
    frame: int = 0
    light: bool = False

    @classmethod
    def of(cls, made: "gymnasium.Env[Any, Any]", vector: Vector) -> Self:
        """The spaces of an environment, and the settings of the vector that it is put in."""
        space = made.observation_space
        image = len(space.shape or ()) == 3 and space.dtype == "uint8"
        frame = max(vector.frame_stack, 1) * _bytes(space)
        return cls(
            observation=(type(space).__name__, *(["Image"] if image else [])),
            action=type(made.action_space).__name__,
            environments=vector.count,
            masked=made.has_wrapper_attr("action_masks"),
            normalised=vector.normalise_observations,
            rewards_normalised=vector.normalise_rewards,
            stacked=vector.frame_stack > 1,
            # A transition has two observations: the one before the step and the one after it.
            transition=2 * frame + _bytes(made.action_space) + SCALAR_BYTES,
            frame=frame,
            light=type(made.unwrapped).__module__.startswith("gymnasium.envs."),
        )


def _bytes(space: Any) -> int:
    """Bytes of one element of a space; those of a Dict or Tuple space are added up."""
    parts = getattr(space, "spaces", None)
    if parts:
        return sum(map(_bytes, parts.values() if isinstance(parts, Mapping) else parts))
    size: int = prod(space.shape or (1,)) * getattr(space.dtype, "itemsize", 4)
    return size


def check_compatibility(
    configurations: Iterable[Configuration],
    workspace: Workspace,
    spaces: dict[str, EnvironmentSpaces] | None = None,
    parts: Mapping[str, PlugIns] | None = None,
    objectives: Sequence[str] = (),
) -> None:
    """Make each environment once and check that its agent and algorithm can use it.

    Args:
        configurations: The configurations to check.
        workspace: The workspace of the configurations.
        spaces: Spaces of environments that were examined before; new ones are added to it.
        parts: Plug-ins that are already built, by the fingerprint of their configuration.
        objectives: The objectives of a sweep, which may name measures.

    Raises:
        ConfigError: An environment does not exist, its algorithm cannot learn on it, or it does
            not report a measure that the score or an objective names.
        RecordError: A file that defines a run of a training script was edited.
    """
    workspace.make_importable()
    spaces = {} if spaces is None else spaces
    checked = set[str]()
    for configuration in configurations:
        if configuration.spec(Phase.TUNING, 0, 0).external:
            _check_batch(configuration, "a training script")
            refuse_replay_of_script(configuration)
            check_declarations(configuration)
            # First, because the packages of a recipe take minutes to install.
            check_dataset(configuration, workspace, checked, call_in_subprocess)
            check_external(configuration, workspace, checked)
            refuse_callbacks(
                configuration, "a training script", "rlexp is not called between its steps"
            )
            continue
        refuse_declarations(configuration)
        built = (parts or {}).get(configuration.fingerprint) or build_parts(
            configuration, workspace
        )
        key = canonical(configuration.environment)
        if key not in spaces:
            spaces[key] = _spaces(configuration.task, built.environment)
        kind = short_name(configuration.agent)
        check_parts(built.agent, kind, built.algorithm, spaces[key], configuration.task)
        if isinstance(built.algorithm, BringsEnvironments):
            device = configuration.compute.device
            built.algorithm.check_task(built.environment, built.agent.arguments(), device)
        else:
            _check_batch(configuration, shown_name(built.algorithm))
        _check_rollout(configuration)
        check_callbacks(configuration, built.algorithm, workspace)
        _check_replay(configuration, built, spaces[key], checked)
        check_learner(configuration, built.algorithm, spaces[key].observation)
        check_dataset(configuration, workspace, checked, call_in_subprocess)
        if uncertain := uncertain_measures(configuration, built.environment, objectives):
            spaces[key] = _with_measures(spaces[key], configuration.task, built.environment)
            check_reported(uncertain, spaces[key].measures, configuration.task)


def _check_batch(configuration: Configuration, name: str) -> None:
    """Refuse to advance runs together whose training is no compiled program."""
    batch = configuration.compute.batch
    if batch > 1:
        raise ConfigError(
            f"compute.batch={batch} advances compiled runs together, and {name} is not compiled: set "
            "compute.batch=1, or choose algorithm=compiled_ppo, compiled_dqn or compiled_sac",
            key="compute.batch",
        )


def _check_replay(
    configuration: Configuration,
    built: LearningPlugIns,
    spaces: EnvironmentSpaces,
    checked: set[str],
) -> None:
    """Check that a replay fits its algorithm and its task; `checked` holds what was checked."""
    if configuration.replay is None:
        return
    check_algorithm(built.replay, built.algorithm, spaces.environments, spaces.observation)
    key = canonical([configuration.replay, configuration.algorithm, configuration.environment])
    if key not in checked:
        checked.add(key)
        # The check makes the environment and plays it.
        examine = partial(built.replay.check_task, built.environment, built.algorithm)
        call_in_subprocess(configuration.task, examine)


def _check_rollout(configuration: Configuration) -> None:
    """Refuse a budget below one rollout, because a rollout is trained whole or not at all."""
    algorithm, steps = configuration.algorithm, configuration.budget.steps
    # With a replay buffer, `n_steps` is the length of n-step returns, not of a rollout.
    if "n_steps" not in algorithm or "buffer_size" in algorithm:
        return
    count = configuration.environment.get("vector", {}).get("count", 1)
    rollout = algorithm["n_steps"] * count
    if rollout > steps:
        raise ConfigError(
            f"budget.steps={steps} is less than one rollout (n_steps * environments = "
            f"{algorithm['n_steps']} * {count} = {rollout}): raise it, or lower algorithm.n_steps",
        )


def build_parts(configuration: Configuration, workspace: Workspace) -> LearningPlugIns:
    """Build the plug-ins of a recorded configuration.

    Raises:
        ConfigError: A plug-in cannot be built.
    """
    environment = {**configuration.environment, "reference": configuration.reference}
    return LearningPlugIns(
        agent=build(configuration.agent, "agent", workspace.allowed),
        algorithm=build(configuration.algorithm, "algorithm", workspace.allowed),
        environment=build(environment, "environment", workspace.allowed),
        replay=configuration.replay and build(configuration.replay, "replay", workspace.allowed),
        dataset=configuration.dataset
        and build(configuration.dataset, "dataset", workspace.allowed),
    )


def _spaces(task: str, environment: Any) -> EnvironmentSpaces:
    """The spaces of an environment, which is made in a child process."""
    environments: list[gymnasium.Env[Any, Any]] = []

    def examine() -> dict[str, Any]:
        try:
            environments.append(environment.make())
            return asdict(EnvironmentSpaces.of(environments[0], environment.vector))
        except RlexpError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(
                f"{task} cannot be made: {reason}; for details: rlexp doctor --environment …",
            ) from error

    def close() -> None:
        # The list is empty if the construction failed.
        for env in environments:
            env.close()

    # Closing some environments never returns, so the spaces are sent before.
    return EnvironmentSpaces(**call_in_subprocess(task, examine, close))


def _with_measures(
    spaces: EnvironmentSpaces, task: str, environment: Environment
) -> EnvironmentSpaces:
    """The spaces with the measures of one episode, which is played in a child process."""
    if spaces.played:
        return spaces
    reported = call_in_subprocess(task, lambda: measures_of_an_episode(environment))
    measures = None if reported is None else tuple(reported)
    return replace(spaces, measures=measures, played=True)


def check_parts(
    agent: Any, kind: str, algorithm: Any, spaces: EnvironmentSpaces, task: str
) -> None:
    """Check that an agent and an algorithm are compatible with an environment.

    Args:
        agent: The agent plug-in.
        kind: The agent's name in the configuration.
        algorithm: The algorithm plug-in.
        spaces: The environment's spaces.
        task: The environment's name.

    Raises:
        ConfigError: They are incompatible.
    """
    name = shown_name(algorithm)
    if spaces.action not in algorithm.actions:
        raise ConfigError(
            f"the actions of {task} are {spaces.action}, but {name} needs "
            f"{' or '.join(algorithm.actions)}; choose another algorithm",
        )
    if agent.policy not in algorithm.policies:
        raise ConfigError(
            f"agent={kind} gives a {agent.policy}, which {name} does not have "
            f"(it has: {', '.join(algorithm.policies)}); choose another agent",
        )
    if (check_installed := getattr(agent, "check_installed", None)) is not None:
        check_installed()
    check_changing_networks(agent, algorithm)
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
    for enabled, key in (
        (spaces.normalised, "normalise_observations"),
        (spaces.stacked, "frame_stack"),
    ):
        if enabled and not {"Box", "Dict"} & set(spaces.observation):
            raise ConfigError(
                f"environment.vector.{key} needs numeric observations, and those of {task} are "
                f"{spaces.observation[-1]}; leave it out",
            )
    if spaces.stacked and hasattr(algorithm, "buffer_size"):
        _check_stack(name, spaces)
    algorithm.check(spaces.environments)


def check_changing_networks(agent: Any, algorithm: Any) -> None:
    """Refuse a network that changes for a learner whose network stays.

    Raises:
        ConfigError: The learner cannot change its network; names the setting of the agent.
    """
    changing = sorted(network_schedules(agent))
    if changing and not getattr(algorithm, "networks_can_change", False):
        raise ConfigError(
            f"agent.{changing[0]} changes while the run trains, and the network of "
            f"{shown_name(algorithm)} cannot: give it one value, or choose another algorithm",
            key=f"agent.{changing[0]}",
        )


def _check_stack(name: str, spaces: EnvironmentSpaces) -> None:
    """Refuse frame stacking behind normalisation for off-policy learners.

    For these, stable-baselines3 stores the observations from before the normalisation, which are
    not stacked.
    """
    if spaces.normalised or spaces.rewards_normalised:
        raise ConfigError(
            f"{name} cannot learn from normalised frames that are stacked afterwards: set "
            "environment.vector.frame_stack=1 and add the wrapper FrameStackObservation, or "
            "normalise nothing",
        )


LIMIT = 120.0
"""Seconds to wait for the result of a child process."""


CLEANUP_LIMIT = 5.0
"""Seconds that a child process may take to end after it has sent its result."""


def call_in_subprocess(
    what: str,
    function: Callable[[], Any],
    cleanup: Callable[[], object] = lambda: None,
    *,
    limit: float = LIMIT,
) -> Any:
    """Call a function in a forked child process and return its result, which is JSON values.

    Args:
        what: The subject of the call, for error messages.
        function: Called in the child process.
        cleanup: Called in the child after the result is sent; its errors are ignored, and the child
            is killed after some seconds.
        limit: Seconds to wait for the result.

    Raises:
        ConfigError: The child raised an error, died or sent no result in time.
    """
    reading, writing = os.pipe()
    # Otherwise the child would print the buffered text a second time.
    sys.stdout.flush()
    sys.stderr.flush()
    command, pid = os.getpid(), os.fork()
    if pid == 0:
        # An interrupt of the terminal reaches the child, too. Nowhere may the child leave this block: the
        # `finally` blocks that follow belong to the command.
        try:
            os.close(reading)
            # Whatever the environment starts ends with the child, and the child with the command.
            fork_under_guard(command, to_close=[writing])
            _run_child(writing, function, cleanup)
        finally:
            os._exit(70)
    # While the parent holds this end open, reading never reaches the end of the stream.
    os.close(writing)
    content = None
    try:
        content = _read(reading, time.monotonic() + limit)
    finally:
        os.close(reading)
        # Without a result there is nothing worth waiting for: the child hangs, or is dead already.
        status = _end(pid, CLEANUP_LIMIT if content else 0.0)
    # An empty text means that the child died before it wrote; None means that the time is over.
    if not content:
        code = os.waitstatus_to_exitcode(status)
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        how = f"after {limit:g} s without a result" if content is None else how
        raise ConfigError(f"the process that examined {what} ended {how}")
    kind, value = json.loads(content)
    if kind == "error":
        raise ConfigError(value)
    return value


def _end(pid: int, patience: float) -> int:
    """Wait for a guarded child, kill it after `patience` seconds, and return its exit status."""
    deadline = time.monotonic() + patience
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() >= deadline:
            kill_guarded(pid)
        time.sleep(0.005)


def _run_child(writing: int, function: Callable[[], Any], cleanup: Callable[[], object]) -> None:
    try:
        content = ["result", function()]
    except RlexpError as error:
        content = ["error", str(error)]
    except Exception as error:  # noqa: BLE001
        content = ["error", " ".join(f"{type(error).__name__}: {error}".split())]
    with os.fdopen(writing, "w") as file:
        json.dump(content, file)
    # The parent has the result: even a SystemExit of the environment must not change the end.
    with suppress(BaseException):
        cleanup()
    sys.stderr.flush()
    # Skips the exit handlers and `finally` blocks that the child inherited from the parent.
    os._exit(0)


def _read(reading: int, deadline: float) -> bytes | None:
    """Read to the end of the stream; None when the deadline passes before."""
    content = b""
    while select.select([reading], [], [], max(deadline - time.monotonic(), 0))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return content
        content += part
    return None
