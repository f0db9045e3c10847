"""Any environment that is registered in Gymnasium."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from rlexp.environments import Reference, Vector
from rlexp.environments.wrappers import Wrapper, check_allowed, check_faithful, imported, wrap
from rlexp.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import gymnasium

_ID = re.compile(r"(?:(?P<module>\w+(?:\.\w+)*):)?(?P<id>(?:[\w-]+/)?[\w.-]+)")
_EXTRAS = ("box2d", "mujoco")
_OURS = {"id", "max_episode_steps", "disable_env_checker", "render_mode"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GymnasiumTask:
    """A Gymnasium environment by its id, with keyword arguments and wrappers."""

    id: str
    """A registered id (`CartPole-v1`), or `module:Id` where the module registers it."""
    name: str | None
    """The name under which scores are compared; null takes the id."""
    imports: tuple[str, ...]
    """Modules to import first: those that register environments or hold wrappers."""
    arguments: dict[str, Any]
    """Keyword arguments of the environment."""
    max_episode_steps: Annotated[int, Ge(1)] | None
    """Steps after which an episode is cut; null leaves the registered limit."""
    wrappers: tuple[Wrapper, ...]
    """Wrappers, the innermost first."""
    vector: Vector
    """How training vectorises it."""
    reference: Reference
    """Known scores of the task."""

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
        for name in sorted(_OURS.intersection(self.arguments)):
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
        return self.name or self._parts()[1]

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
        environment = self._bare(render)
        if inner is not None:
            environment = inner(environment)
        for wrapper in self.wrappers:
            environment = wrap(environment, wrapper, self._packages())
        return environment

    def _bare(self, render: str | None) -> "gymnasium.Env[Any, Any]":
        import gymnasium

        module, registered = self._parts()
        for name in (*self.imports, *([module] if module else [])):
            imported(name)
        if registered not in gymnasium.registry:
            raise ConfigError(
                f"environment.id={registered!r} is not registered in Gymnasium"
                f"{did_you_mean(registered, gymnasium.registry)} (a package that registers it "
                "goes into environment.imports)"
            )
        options: dict[str, Any] = {} if render is None else {"render_mode": render}
        if self.max_episode_steps is not None:
            options["max_episode_steps"] = self.max_episode_steps
        try:
            return gymnasium.make(
                registered, disable_env_checker=True, **options, **self.arguments
            )
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise ConfigError(_refusal(registered, error)) from error

    def _parts(self) -> tuple[str | None, str]:
        match = _ID.fullmatch(self.id)
        return (match["module"], match["id"]) if match else (None, self.id)

    def _packages(self) -> frozenset[str]:
        modules = (*self.imports, self._parts()[0] or "")
        return frozenset(module.partition(".")[0] for module in modules if module)


def _refusal(registered: str, error: Exception) -> str:
    """Say in one line why an environment was not made, and what to install if that is why."""
    import gymnasium

    entry = str(gymnasium.registry[registered].entry_point)
    reason = " ".join(str(error).split())
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ModuleNotFoundError):
        for extra in _EXTRAS:
            if entry.startswith(f"gymnasium.envs.{extra}"):
                return (
                    f"environment.id={registered!r} needs packages that are not installed: "
                    f"pip install 'rlexp[{extra}]'"
                )
    return f"environment.id={registered!r} cannot be made: {reason}"
