"""Gymnasium wrappers by name, loaded only from packages that the configuration allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rlexp.environments.suites import install_hint, suite_of_module
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.measures import DeclaredMeasure

if TYPE_CHECKING:
    import gymnasium

_GYMNASIUM = "gymnasium.wrappers"
_OURS = {
    "rlexp:Measured": "rlexp.environments.measures:EpisodeMeasure",
    "rlexp:SeededEpisodes": "rlexp.environments.seeding:SeededEpisodes",
    "rlexp:UnboundedObservation": "rlexp.environments.bounds:UnboundedObservation",
}
"""Paths of rlexp's own wrappers by name. Names are part of run identities and never change."""
_FORMER_PATHS = {"rlexp.environments.measures:Measured": "rlexp:Measured"}
"""Former paths of rlexp's wrappers, which configurations may still name."""
_ALWAYS_ALLOWED = {
    "stable_baselines3.common.atari_wrappers",
    *(path.partition(":")[0] for path in _OURS.values()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A wrapper of the environment, outside of the wrappers listed before it."""

    name: str
    """A class of `gymnasium.wrappers`, `module:Class` of an imported package, or `rlexp:Class`."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""

    def __post_init__(self) -> None:
        """Replace the path of one of rlexp's wrappers by its stable name."""
        stable_names = _FORMER_PATHS | {path: name for name, path in _OURS.items()}
        object.__setattr__(self, "name", stable_names.get(self.name, self.name))


def check_allowed(wrapper: Wrapper, packages: frozenset[str]) -> None:
    """Refuse a wrapper whose module may not be imported.

    Args:
        wrapper: The wrapper.
        packages: Names of the packages that the configuration imports.

    Raises:
        ConfigError: Its package is not in `packages`.
    """
    module, _ = _split(wrapper.name)
    package = module.partition(".")[0]
    # The import runs code, so a configuration must name the package openly in its imports.
    if module not in {"", *_ALWAYS_ALLOWED} and package not in packages:
        raise ConfigError(
            f"wrapper '{wrapper.name}' may not be loaded: '{package}' is not in "
            f"environment.imports ({', '.join(sorted(packages)) or 'which is empty'}); add it "
            "there, or name a class of gymnasium.wrappers"
        )


def measured_by(wrappers: Sequence[Wrapper]) -> dict[str, DeclaredMeasure]:
    """The measures that wrappers `rlexp:Measured` report, with nothing known about them."""
    names = [w.arguments.get("name") for w in wrappers if w.name == "rlexp:Measured"]
    return {name: DeclaredMeasure() for name in names if isinstance(name, str)}


def module_of(name: str) -> str:
    """Return the module of a wrapper if its import needs permission, else an empty string."""
    module, _ = _split(name)
    return "" if module in {_GYMNASIUM, *_ALWAYS_ALLOWED} else module


_REFUSED = {
    "NormalizeObservation": "evaluation would not share its statistics; "
    "set environment.vector.normalise_observations=true",
    "EpisodicLifeEnv": "it would count a life as an episode; leave it out",
    "RecordVideo": "it would write where its arguments say; 'rlexp evaluate --video' films runs",
    "ArrayConversion": "it would import what its arguments name; name a class made of it",
}


def check_faithful(wrapper: Wrapper) -> None:
    """Refuse a wrapper with which scores would not be those of the task.

    Raises:
        ConfigError: The wrapper is refused; the message gives the reason and a substitute.
    """
    _, name = _split(wrapper.name)
    if name in _REFUSED:
        raise ConfigError(f"wrapper '{wrapper.name}' is refused: {_REFUSED[name]}")
    if name == "AtariWrapper" and wrapper.arguments.get("terminal_on_life_loss", True):
        raise ConfigError(
            f"wrapper '{wrapper.name}' would count a life as an episode; "
            "give it arguments {terminal_on_life_loss: false}",
        )


def wrap(
    environment: "gymnasium.Env[Any, Any]", wrapper: Wrapper, packages: frozenset[str]
) -> "gymnasium.Env[Any, Any]":
    """Return the environment inside the wrapper.

    Raises:
        ConfigError: The wrapper is not allowed, does not exist or refuses its arguments.
    """
    import gymnasium

    check_allowed(wrapper, packages)
    kind = _load(wrapper.name)
    if not (isinstance(kind, type) and issubclass(kind, gymnasium.Wrapper)):
        raise ConfigError(f"wrapper '{wrapper.name}' is no subclass of gymnasium.Wrapper")
    try:
        return kind(environment, **wrapper.arguments)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(_lacking(wrapper, error)) from error
    except (AssertionError, TypeError, ValueError, gymnasium.error.Error) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"wrapper '{wrapper.name}' refuses arguments {wrapper.arguments}: {reason}"
        ) from error


def inside(
    environment: "gymnasium.Env[Any, Any]",
    wrappers: Sequence[Wrapper],
    packages: frozenset[str],
    inner: Callable[["gymnasium.Env[Any, Any]"], "gymnasium.Env[Any, Any]"] | None,
) -> "gymnasium.Env[Any, Any]":
    """Return the bare environment inside `inner` and all wrappers.

    Args:
        environment: The bare environment.
        wrappers: Wrappers of the configuration, the innermost first.
        packages: Names of the packages that the configuration imports.
        inner: The innermost wrapper, or None.

    Raises:
        ConfigError: A wrapper is not allowed, does not exist or refuses its arguments.
    """
    if inner is not None:
        environment = inner(environment)
    for wrapper in wrappers:
        environment = wrap(environment, wrapper, packages)
    return environment


def imported(module: str) -> ModuleType:
    """Import a module that the configuration names.

    Raises:
        ConfigError: The import fails; the message says why.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # The missing module may be another one, which the named module imports.
        suite = suite_of_module(error.name or "")
        if suite is None:
            raise ConfigError(_not_imported(module, error)) from error
        raise ConfigError(
            f"environment.imports: '{error.name}' is not installed: {install_hint(suite)}"
        ) from error
    except Exception as error:
        raise ConfigError(_not_imported(module, error)) from error


def _not_imported(module: str, error: Exception) -> str:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"environment.imports: module '{module}' does not import ({reason}); install it, "
        "or start from the folder that holds it"
    )


def _lacking(wrapper: Wrapper, error: Exception) -> str:
    """Return the error for a wrapper whose packages are missing, with what to install."""
    # Gymnasium raises its own error; only its cause, the ImportError, names the module.
    cause = error.__cause__
    suite = suite_of_module(cause.name or "") if isinstance(cause, ImportError) else None
    reason = " ".join(str(error).split()) if suite is None else install_hint(suite)
    return f"wrapper '{wrapper.name}' needs packages that are not installed: {reason}"


def _split(name: str) -> tuple[str, str]:
    """Split `module:Class` or `package.module.Class` into module and class."""
    name = _OURS.get(name, name)
    module, _, kind = name.rpartition(":" if ":" in name else ".")
    return module, kind


def _load(name: str) -> object:
    module_name, kind = _split(name)
    module = imported(module_name or _GYMNASIUM)
    classes = [key for key, value in vars(module).items() if isinstance(value, type)]
    if kind not in classes:
        raise ConfigError(
            f"wrapper '{kind}' is no class of {module.__name__}{did_you_mean(kind, classes)}"
        )
    return getattr(module, kind)
