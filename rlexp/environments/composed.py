"""A task inside components: what changes it, measures it, or helps to learn it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from rlexp.environments import Environment, Reference, Stage, Vector

if TYPE_CHECKING:
    import gymnasium


RESETS_AGAIN = "resets_again"
"""Attribute of wrappers that reset what is inside them more than once as an episode begins: what
chooses how an episode begins has to be inside of them."""


class Component(Protocol):
    """Wraps the environments of a task, perhaps in other ways for training and for evaluation.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    @property
    def splits(self) -> bool:
        """Whether evaluation holds out a distribution that training does not see."""
        ...

    def wrap(
        self, environment: "gymnasium.Env[Any, Any]", stage: Stage
    ) -> "gymnasium.Env[Any, Any]":
        """Return the environment inside this component, or itself where that does nothing.

        Spaces must be the same at every stage: one policy plays at all of them.

        Args:
            environment: With all wrappers of the configuration, and the components before.
            stage: What it is made for.

        Raises:
            ConfigError: The component does not fit the environment; says why.
        """
        ...


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around an environment, and is the same task."""

    environment: Environment

    @property
    def task(self) -> str:
        """The name under which scores are compared."""
        return self.environment.task

    @property
    def vector(self) -> Vector:
        """How training vectorises it."""
        return self.environment.vector

    @property
    def reference(self) -> Reference:
        """Known scores of the task."""
        return self.environment.reference


@dataclass(frozen=True, slots=True)
class ComposedTask(Around):
    """A task inside components, the innermost first; `at` gives it as it is at a stage."""

    components: Mapping[str, Component]
    stage: Stage = Stage.TRAINING

    def make(
        self,
        render: str | None = None,
        inner: Callable[["gymnasium.Env[Any, Any]"], "gymnasium.Env[Any, Any]"] | None = None,
    ) -> "gymnasium.Env[Any, Any]":
        """Return one fresh environment, unseeded, inside the components.

        Args:
            render: A render mode of the environment (`rgb_array`), or none.
            inner: Wraps the bare environment before any wrapper does.

        Raises:
            ConfigError: The environment or a component cannot be made; says why.
        """
        made = self.environment.make(render, inner)
        for component in self.components.values():
            made = component.wrap(made, self.stage)
        return made


def at(environment: Environment, stage: Stage) -> Environment:
    """The environment as it is at a stage."""
    return (
        replace(environment, stage=stage) if isinstance(environment, ComposedTask) else environment
    )


def pinned(environment: Environment) -> Environment:
    """The environment, whose components say exactly which files they depend on.

    A component that has a method `pinned` returns itself with their digests, so that these are part
    of a run's identity.

    Raises:
        ConfigError: There is no such file.
    """
    if not isinstance(environment, ComposedTask):
        return environment
    components = {
        name: component.pinned() if hasattr(component, "pinned") else component
        for name, component in environment.components.items()
    }
    return replace(environment, components=components)


def splits(environment: Environment) -> bool:
    """Whether evaluation holds out a distribution that training does not see."""
    return isinstance(environment, ComposedTask) and any(
        component.splits for component in environment.components.values()
    )
