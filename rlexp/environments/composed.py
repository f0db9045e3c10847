"""A task inside components, which change it, measure it, or help to learn it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from rlexp.environments import Environment, Reference, Stage, Vector
from rlexp.protocol.measures import DeclaredMeasure

if TYPE_CHECKING:
    import gymnasium


RESETS_AGAIN = "resets_again"
"""Attribute of wrappers that reset the environment inside them several times per episode.

Wrappers that choose how an episode begins must be inside of them."""


class Component(Protocol):
    """A plug-in that wraps the environments of a task; the wrapper may depend on the stage.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    @property
    def splits(self) -> bool:
        """Whether evaluation uses a distribution that training does not see."""
        ...

    def wrap(
        self, environment: "gymnasium.Env[Any, Any]", stage: Stage
    ) -> "gymnasium.Env[Any, Any]":
        """Return the environment inside this component, or the environment itself.

        Spaces must be the same at every stage, because one policy plays at all stages.

        Args:
            environment: The environment inside all wrappers and all earlier components.
            stage: The use of the environment.

        Raises:
            ConfigError: The component does not fit the environment; the message says why.
        """
        ...


@dataclass(frozen=True, slots=True)
class Around:
    """Base of classes that wrap the environments of a task and keep its name and settings."""

    environment: Environment

    @property
    def task(self) -> str:
        """The name under which scores are compared."""
        return self.environment.task

    @property
    def vector(self) -> Vector:
        """The vector of environments for training."""
        return self.environment.vector

    @property
    def reference(self) -> Reference:
        """Known scores of the task."""
        return self.environment.reference


@dataclass(frozen=True, slots=True)
class ComposedTask(Around):
    """A task inside components, the innermost first; `at` returns it for a stage."""

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
            ConfigError: The environment or a component cannot be made; the message says why.
        """
        environment = self.environment.make(render, inner)
        for component in self.components.values():
            environment = component.wrap(environment, self.stage)
        return environment


def at_stage(environment: Environment, stage: Stage) -> Environment:
    """Return the task for a stage."""
    return (
        replace(environment, stage=stage) if isinstance(environment, ComposedTask) else environment
    )


def pinned(environment: Environment) -> Environment:
    """Return the task with components that hold the digests of the files they depend on.

    A component with a method `pinned` returns itself with these digests, so that they are part of
    the identity of a run.

    Raises:
        ConfigError: A file does not exist.
    """
    if not isinstance(environment, ComposedTask):
        return environment
    components = {
        name: component.pinned() if hasattr(component, "pinned") else component
        for name, component in environment.components.items()
    }
    return replace(environment, components=components)


def reported_measures(environment: Environment) -> dict[str, DeclaredMeasure]:
    """The measures that a task and its components are certain to report.

    An environment may report others, which nobody knows before it is played.
    """
    if not isinstance(environment, ComposedTask):
        return dict(getattr(environment, "reported", {}))
    measures = reported_measures(environment.environment)
    for component in environment.components.values():
        measures |= getattr(component, "reported", {})
    return measures


def declared_measures(environment: Environment) -> dict[str, DeclaredMeasure]:
    """Every measure that is known before a run: reported for certain, or declared by the user.

    A declaration of the configuration replaces what the code knows about a measure.
    """
    task = environment.environment if isinstance(environment, ComposedTask) else environment
    return {**reported_measures(environment), **getattr(task, "measures", {})}


def splits(environment: Environment) -> bool:
    """Whether evaluation uses a distribution that training does not see."""
    return isinstance(environment, ComposedTask) and any(
        component.splits for component in environment.components.values()
    )
