"""The base of plug-ins for tasks that Gymnasium makes by a registered id."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from rlexp.environments import Reference, Vector
from rlexp.environments.suites import (
    install_hint,
    installation_conflict,
    is_installed,
    suite_of_entry,
    suite_of_id,
)
from rlexp.environments.wrappers import (
    Wrapper,
    check_allowed,
    check_faithful,
    imported,
    inside,
    measured_by,
)
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.measures import DeclaredMeasure
from rlexp.protocol.units import Unit

if TYPE_CHECKING:
    import gymnasium

_ID = re.compile(r"(?:(?P<module>\w+(?:\.\w+)*):)?(?P<id>(?:[\w-]+/)?[\w.-]+)")
_RESERVED = {"id", "max_episode_steps", "disable_env_checker", "render_mode"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTask:
    """An environment by its registered id, with keyword arguments and wrappers."""

    id: str
    """A registered id (`CartPole-v1`), or `module:Id` where the module registers it."""
    name: str | None
    """The name under which scores are compared; null takes the id."""
    imports: tuple[str, ...]
    """Modules to import first: those that register environments or hold wrappers."""
    arguments: dict[str, Any]
    """Keyword arguments of the environment."""
    max_episode_steps: Annotated[int, Ge(1)] | None
    """Steps after which an episode is truncated; null keeps the registered limit."""
    wrappers: tuple[Wrapper, ...]
    """Wrappers, the innermost first."""
    vector: Vector
    """The vector of environments for training."""
    reference: Reference
    """Known scores of the task."""
    measures: dict[str, DeclaredMeasure] = field(default_factory=dict)
    """Directions and known values of measures, by name."""
    unit: Unit | None = None
    """The unit of the steps of a training script; null means environment steps."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ConfigError(
                f"environment.id={self.id!r} is no id: write Name-v1, namespace/Name-v1 or "
                "module:Name-v1"
            )
        for module in self.imports:
            if not all(part.isidentifier() for part in module.split(".")):
                raise ConfigError(
                    f"environment.imports: {module!r} is no module: write package or "
                    "package.module"
                )
        for name in sorted(_RESERVED.intersection(self.arguments)):
            raise ConfigError(
                f"environment.arguments.{name} is set by rlexp: use environment.id, "
                "environment.max_episode_steps or the commands that render"
            )
        for wrapper in self.wrappers:
            check_allowed(wrapper, self._packages())
            check_faithful(wrapper)

    @property
    def task(self) -> str:
        """The name under which scores are compared."""
        return self.name or self.registered

    @property
    def reported(self) -> dict[str, DeclaredMeasure]:
        """The measures that the wrappers report."""
        return measured_by(self.wrappers)

    @property
    def registered(self) -> str:
        """The id without the module that registers it."""
        return self._parts()[1]

    def make(
        self,
        render: str | None = None,
        inner: Callable[["gymnasium.Env[Any, Any]"], "gymnasium.Env[Any, Any]"] | None = None,
    ) -> "gymnasium.Env[Any, Any]":
        """Return one fresh environment, unseeded, with its wrappers.

        Args:
            render: A render mode of the environment (`rgb_array`), or none.
            inner: Wraps the bare environment before any wrapper of the configuration does.

        Raises:
            ConfigError: The id, a wrapper, an import or an argument does not fit.
        """
        return inside(self.bare(render), self.wrappers, self._packages(), inner)

    def bare(self, render: str | None) -> "gymnasium.Env[Any, Any]":
        """Return the environment as Gymnasium makes it, without wrappers of the configuration.

        Raises:
            ConfigError: The id, an import or an argument does not fit.
        """
        import gymnasium

        module, registered = self._parts()
        for name in (*self.imports, *([module] if module else [])):
            imported(name)
        if text := unregistered(registered):
            raise ConfigError(text, code="unknown_option", key="environment.id")
        options: dict[str, Any] = {} if render is None else {"render_mode": render}
        if self.max_episode_steps is not None:
            options["max_episode_steps"] = self.max_episode_steps
        try:
            # The checker slows down steps and prints warnings; `rlexp doctor` checks instead.
            return gymnasium.make(
                registered, disable_env_checker=True, **options, **self.arguments
            )
        except (gymnasium.error.Error, AssertionError, ImportError, TypeError) as error:
            raise ConfigError(_refusal(registered, error)) from error

    def _parts(self) -> tuple[str | None, str]:
        match = _ID.fullmatch(self.id)
        return (match["module"], match["id"]) if match else (None, self.id)

    def _packages(self) -> frozenset[str]:
        modules = (*self.imports, self._parts()[0] or "")
        return frozenset(module.partition(".")[0] for module in modules if module)


def unregistered(registered: str) -> str | None:
    """Return why Gymnasium makes no such environment, and what would register it; None if it does."""
    import gymnasium

    if registered in gymnasium.registry:
        return None
    message = f"environment.id={registered!r} is not registered in Gymnasium"
    suite = suite_of_id(registered)
    if suite is not None and not is_installed(suite):
        return f"{message}; the package that registers such ids is missing: {install_hint(suite)}"
    hint = did_you_mean(registered, gymnasium.registry)
    package = "a package that registers it" if suite is None else f"'{suite.module}'"
    return f"{message}{hint} ({package} goes into environment.imports)"


def _refusal(registered: str, error: Exception) -> str:
    """Return the error for an environment that cannot be made, with a package to install."""
    import gymnasium

    suite = suite_of_entry(str(gymnasium.registry[registered].entry_point))
    absent = isinstance(error, gymnasium.error.DependencyNotInstalled | ModuleNotFoundError)
    if absent and suite is not None:
        return (
            f"environment.id={registered!r} needs packages that are not installed: "
            f"{install_hint(suite)}"
        )
    reason = " ".join(str(error).split()) or type(error).__name__
    if suite is not None and (cause := installation_conflict(suite)):
        reason += f"; {cause}: give rlexp[{suite.extra}] a virtual environment of its own"
    return f"environment.id={registered!r} cannot be made: {reason}"
