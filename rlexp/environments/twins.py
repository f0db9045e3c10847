"""Compiled twins: tasks as pure functions, on which compiled algorithms train.

`Twin` is the protocol. `check_twin` refuses a task that cannot be trained in this way, `make_twin`
returns the twin of a task, and `twin_digest` the digest of its code. Nothing here imports JAX.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rlexp.environments import Environment
from rlexp.environments.composed import ComposedTask
from rlexp.errors import ConfigError
from rlexp.installation_way import install_command
from rlexp.protocol.identity import TARGET

if TYPE_CHECKING:
    import jax

Tree: TypeAlias = Any
"""An array of JAX, or a tuple, list or dictionary of arrays."""

PACKAGE = "rlexp.environments.classic_control_twins"
TWINS = {
    "Acrobot-v1": f"{PACKAGE}.acrobot.AcrobotTwin",
    "CartPole-v1": f"{PACKAGE}.cart_pole.CartPoleTwin",
    "MountainCar-v0": f"{PACKAGE}.mountain_car.MountainCarTwin",
    "MountainCarContinuous-v0": f"{PACKAGE}.mountain_car_continuous.MountainCarContinuousTwin",
    "Pendulum-v1": f"{PACKAGE}.pendulum.PendulumTwin",
}
"""Classes by the id of the task in Gymnasium, each in a file of its own, whose digest is recorded."""
KEY = "algorithm.twin"
GUIDE = "docs/guides/compiled.md"


class Twin(Protocol):
    """One environment as pure functions of JAX arrays; the compiled program calls them for many.

    An action is an integer (Discrete) or an array within the bounds of the task (Box). The program
    truncates episodes at the time limit of the task, which a twin does not count.
    """

    def reset(self, key: "jax.Array") -> Tree:
        """Return the state at the start of an episode, drawn with a key of `jax.random`."""
        ...

    def observe(self, state: Tree) -> "jax.Array":
        """Return the observation in a state: 32-bit floats with the shape of the task's space."""
        ...

    def step(
        self, key: "jax.Array", state: Tree, action: "jax.Array"
    ) -> tuple[Tree, "jax.Array", "jax.Array"]:
        """Return the next state, the reward, and whether the episode terminates.

        Args:
            key: A key of `jax.random`, which a deterministic task does not use.
            state: The state.
            action: The action.
        """
        ...


def check_twin(environment: Environment, named: Mapping[str, Any] | None) -> None:
    """Refuse a task on which a compiled algorithm cannot train.

    Args:
        environment: The task.
        named: The user's twin (`_target_` and settings), or None for the twin of rlexp.

    Raises:
        ConfigError: JAX is missing, or the task has no twin; names what is in the way.
    """
    _check_components(environment)
    _check_vector(environment)
    _settings(environment, named)
    # Last, because the other obstacles remain when JAX is installed.
    if find_spec("jax") is None:
        raise ConfigError.missing_package(
            "compiled algorithms need JAX, which is not installed",
            install_command("compiled"),
            key="algorithm",
        )


def _check_components(environment: Environment) -> None:
    if isinstance(environment, ComposedTask) and environment.components:
        names = ", ".join(environment.components)
        raise ConfigError(
            f"the components of {environment.task} ({names}) wrap environments of Gymnasium, and a "
            "compiled algorithm trains on none: leave the components out, or choose an algorithm "
            "that is not compiled (algorithm=ppo)",
            key="environment.components",
        )


def _check_vector(environment: Environment) -> None:
    vector, other = environment.vector, "choose an algorithm that is not compiled (algorithm=ppo)"
    for name, off in (
        ("normalise_observations", False),
        ("normalise_rewards", False),
        ("frame_stack", 1),
    ):
        if getattr(vector, name) != off:
            raise ConfigError(
                f"environment.vector.{name} is not part of compiled training: set "
                f"environment.vector.{name}={str(off).lower()}, or {other}",
                key=f"environment.vector.{name}",
            )
    if vector.kind != "dummy":
        raise ConfigError(
            f"environment.vector.kind={vector.kind} starts processes, and compiled training has "
            "none: set environment.vector.kind=dummy",
            key="environment.vector.kind",
        )


def _settings(environment: Environment, named: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The class of the twin (`_target_`) and its settings.

    Raises:
        ConfigError: The task has no twin, or its settings change it.
    """
    if named is not None:
        return named
    registered = str(getattr(environment, "registered", environment.task))
    if registered not in TWINS:
        raise ConfigError(
            f"{environment.task} has no compiled twin; tasks with one: {', '.join(TWINS)}; choose "
            f"one of them, write a twin and name it in {KEY} ({GUIDE}), or choose an algorithm "
            "that is not compiled (algorithm=ppo)",
            code="unknown_option",
            key=KEY,
            allowed=TWINS,
        )
    for name in ("wrappers", "arguments"):
        if getattr(environment, name, None):
            raise ConfigError(
                f"environment.{name} changes {environment.task}, and its compiled twin does not "
                f"know it: leave environment.{name} out, or write a twin and name it in {KEY} "
                f"({GUIDE})",
                key=f"environment.{name}",
            )
    return {TARGET: TWINS[registered]}


def make_twin(environment: Environment, named: Mapping[str, Any] | None) -> Twin:
    """Return the twin of a task.

    Args:
        environment: The task.
        named: The user's twin (`_target_` and settings), or None for the twin of rlexp.

    Raises:
        ConfigError: The task has no twin, or the user's cannot be built.
    """
    settings = _settings(environment, named)
    module, name = _path(settings)
    try:
        kind = getattr(import_module(module), name)
    # Importing executes any code of the user, which may raise any error.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{KEY}: {module}.{name} cannot be imported: {reason}") from error
    if not isinstance(kind, type) or not is_dataclass(kind):
        raise ConfigError(f"{KEY}: {module}.{name} is no dataclass; {GUIDE} has an example")
    try:
        built: Any = kind(**{key: value for key, value in settings.items() if key != TARGET})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{KEY}: {name} refuses its settings: {error}") from error
    missing = [method for method in ("reset", "observe", "step") if not hasattr(built, method)]
    if missing:
        raise ConfigError(f"{KEY}: {name} lacks {', '.join(missing)}; {GUIDE} has an example")
    twin: Twin = built
    return twin


def _path(settings: Mapping[str, Any]) -> tuple[str, str]:
    """The module and the name of a twin's class."""
    module, _, name = str(settings.get(TARGET, "")).rpartition(".")
    if not module or not name:
        raise ConfigError(
            f"{KEY} needs the path of a class: '{KEY}={{_target_: my_module.MyTwin}}'", key=KEY
        )
    return module, name


def twin_digest(environment: Environment, named: Mapping[str, Any] | None) -> str:
    """The sha256 of the file that defines a twin, in hexadecimal.

    Args:
        environment: The task.
        named: The user's twin (`_target_` and settings), or None for the twin of rlexp.

    Raises:
        ConfigError: The task has no twin, or the file does not exist.
    """
    module, _ = _path(_settings(environment, named))
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise ConfigError(
            f"{KEY}: there is no module {module!r}; start from the folder that holds it, or install "
            "it",
            key=KEY,
        )
    return sha256(Path(spec.origin).read_bytes()).hexdigest()
