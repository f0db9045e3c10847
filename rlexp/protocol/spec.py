"""What defines one run, as plain data, and the identity that follows from it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from rlexp.protocol.identity import Plain, digest, identifying, short_name, without_null
from rlexp.protocol.seeds import Phase, Streams

PLUG_INS = ("agent", "algorithm", "environment", "callback", "replay", "dataset")
"""Fields that hold a plug-in each."""
ALWAYS = ("agent", "algorithm", "environment", "budget", "compute")
"""Fields of a configuration that every run has."""
CONFIGURATION = (*ALWAYS, "code", "callback", "replay", "dataset")
"""Fields that are hashed into the fingerprint; runs of one configuration share them."""
RUN = ("phase", "root", "seed", "parent")
"""Fields that are hashed into the id, with the fingerprint."""
COMPONENTS = "components"
"""Key of an environment under which its components are, by name, the innermost first."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that this one goes on from.

    Attributes:
        run: Its id.
        step: The environment steps that it had taken.
        digest: The sha256 of its state there, in hexadecimal.
    """

    run: str
    step: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training of one configuration with one seed in one phase.

    Two runs are the same run when, and only when, these fields are equal in what identifies them.
    Fields that are null do not count, so that a field that is added later changes no identity.

    Attributes:
        agent: What decides, with its settings.
        algorithm: How it learns.
        environment: The task, with its components.
        budget: How long, and how it is scored.
        compute: What of the machine changes numbers.
        phase: What the run is for.
        root: Keys every seed.
        seed: Number of the run within its phase.
        parent: The run that it goes on from, if any.
        code: The sha256 of code that is part of the configuration, if any.
        callback: A plug-in that acts during training, if any.
        replay: A plug-in that keeps experience, if any.
        dataset: A plug-in that gives recorded experience, if any.
    """

    schema: ClassVar[int] = 2
    """Of the file that holds it; how identities are computed follows from it."""

    agent: Plain
    algorithm: Plain
    environment: Plain
    budget: Plain
    compute: Plain
    phase: Phase
    root: int
    seed: int
    parent: Parent | None = None
    code: str | None = None
    callback: Plain | None = None
    replay: Plain | None = None
    dataset: Plain | None = None

    @cached_property
    def id(self) -> str:
        """Identity: sha256 of the fingerprint and the fields in which runs differ."""
        hashed: dict[str, Any] = {"configuration": self.fingerprint, "phase": self.phase}
        hashed |= {"root": self.root, "seed": self.seed}
        if self.parent is not None:
            hashed["parent"] = asdict(self.parent)
        return digest(hashed)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the configuration: sha256 of exactly its fields."""
        return digest(configuration_identity(self.parts))

    @property
    def parts(self) -> dict[str, Any]:
        """The fields of the configuration that are not null."""
        every = {name: getattr(self, name) for name in CONFIGURATION}
        return {name: part for name, part in every.items() if part is not None}

    @cached_property
    def name(self) -> str:
        """Name of the run's folder, readable and unique: `ppo-test-0-1a2b3c4d5e`."""
        return f"{self._learner}-{self.phase}-{self.seed}-{self.id[:10]}"

    @cached_property
    def _learner(self) -> str:
        return short_name(self.algorithm)

    def again(self, phase: Phase, root: int, seed: int) -> Self:
        """The run of the same configuration with another seed, which goes on from no other run.

        What was computed of the configuration is handed on, so that ten thousand runs hash it once.
        """
        _ = self.fingerprint, self._learner
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        for computed in ("id", "name"):
            other.__dict__.pop(computed, None)
        other.__dict__.update(phase=phase, root=root, seed=seed, parent=None)
        return other

    @property
    def imported(self) -> Plain | None:
        """What says that another tool made the run; nothing for one of ours."""
        marked = self.algorithm.get("imported")
        return marked if isinstance(marked, Mapping) else None

    @property
    def external(self) -> bool:
        """Whether a training script makes the run, with whatever library it uses."""
        part = self.algorithm
        return isinstance(part, Mapping) and isinstance(part.get("command"), str)

    @property
    def streams(self) -> Streams:
        """Every seed that the run hands to a library."""
        return Streams(self.root, self.phase, self.seed)

    def plain(self) -> dict[str, Any]:
        """The fields that are not null, as a mapping of JSON values."""
        plain = {name: getattr(self, name) for name in (*CONFIGURATION, *RUN)}
        if self.parent is not None:
            plain["parent"] = asdict(self.parent)
        return {name: plain[name] for name in plain if plain[name] is not None}

    @classmethod
    def from_plain(cls, plain: Plain) -> Self:
        """The inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: The parent has other fields.
            ValueError: The phase, the root or the seed is none.
        """
        values = {name: plain[name] for name in (*ALWAYS, "phase", "root", "seed")}
        for name in ("root", "seed"):
            if type(values[name]) is not int:
                raise ValueError(f"{name}={values[name]!r} is no whole number")
        values |= {name: plain.get(name) for name in CONFIGURATION if name not in ALWAYS}
        if plain.get("parent") is not None:
            values["parent"] = Parent(**plain["parent"])
        return cls(**{**values, "phase": Phase(plain["phase"])})


def configuration_identity(parts: Plain) -> dict[str, Any]:
    """What of a configuration is hashed.

    Args:
        parts: Its fields, by their names.
    """
    hashed = {k: identifying(v) if k in PLUG_INS else without_null(v) for k, v in parts.items()}
    if components := _components(hashed["environment"]):
        # Their order counts, which the canonical form of a mapping does not keep.
        in_order = [identifying(component) for component in components.values()]
        hashed["environment"] = {**hashed["environment"], COMPONENTS: in_order}
    return hashed


def described(parts: Plain) -> dict[str, Any]:
    """What of a configuration is hashed, in the form in which differences are named to people.

    Args:
        parts: Its fields, by their names.
    """
    shown = configuration_identity(parts)
    if components := _components(parts["environment"]):
        named = {name: identifying(component) for name, component in components.items()}
        shown["environment"] = {**shown["environment"], COMPONENTS: named}
        if len(named) > 1:
            shown["environment"]["order_of_components"] = list(named)
    return shown


def _components(environment: Any) -> Plain:
    components = environment.get(COMPONENTS) if isinstance(environment, Mapping) else None
    return components if isinstance(components, Mapping) else {}
