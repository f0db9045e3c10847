"""The definition of one run as JSON data, and its identity."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Self

from rlexp.protocol.budget import BATCH
from rlexp.protocol.identity import Plain, digest, identifying, short_name, without_null
from rlexp.protocol.measures import quantity_of
from rlexp.protocol.seeds import Phase, Streams
from rlexp.protocol.units import unit_of

PLUG_INS = ("agent", "algorithm", "environment", "callback", "replay", "dataset")
"""Fields that contain a plug-in."""
ALWAYS = ("agent", "algorithm", "environment", "budget", "compute")
"""Fields of a configuration that every run has."""
OF_COMMIT = "commit:"
"""The beginning of a field `code` that names the files of a commit in an ablation."""
CONFIGURATION = (*ALWAYS, "code", "callback", "replay", "dataset")
"""Fields that are hashed into the fingerprint; runs of one configuration share them."""
SETTABLE = (
    "agent",
    "algorithm",
    "environment",
    "callback",
    "replay",
    "dataset",
    "budget",
    "compute",
)
"""Fields of a configuration that are sections of the composed settings."""
LEARNING = ("algorithm", "agent", "replay", "dataset", "callback")
"""Fields of a configuration whose settings are hyperparameters."""
RUN = ("phase", "root", "seed", "parent")
"""Fields that are hashed into the id, together with the fingerprint."""
COMPONENTS = "components"
"""Key of an environment for its components, by name, innermost first."""

CALLBACK = "callback"
"""Field for the plug-ins that act during training, by name, in the order of their calls."""


def scored_quantity(algorithm: Plain, score: str) -> str:
    """What a score is made of: `return`, or the name of a measure or an imported metric.

    Args:
        algorithm: The settings of the algorithm; those of an imported run hold its metric.
        score: The score of the budget.
    """
    source = algorithm.get("imported") if isinstance(algorithm, Mapping) else None
    metric = source.get("metric") if isinstance(source, Mapping) else None
    return quantity_of(score) if metric is None else str(metric)


ASK_AND_TELL = "ask-and-tell"
"""The kind of imported runs that a program has trained for a study that asked for them."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The run from which another run continues.

    Attributes:
        run: The id of the run.
        step: Environment steps that the run had taken.
        digest: The sha256 of its state at that step, in hexadecimal.
    """

    run: str
    step: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training of one configuration with one seed in one phase.

    Two runs are the same run if and only if the identifying parts of these fields are equal. Null
    fields are not hashed: a field that is added in a later version changes no identity.

    Attributes:
        agent: The agent with its settings: what selects actions.
        algorithm: The learning algorithm with its settings.
        environment: The task with its components.
        budget: Steps, evaluations and the definition of the score.
        compute: Compute settings that change numbers.
        phase: Purpose of the run.
        root: Key of all seeds.
        seed: Number of the run within its phase.
        parent: The run from which this run continues, if any.
        code: The digest of the code that a candidate of a stream is trained by, or `commit:` and that
            of a commit in an ablation; None for ordinary runs.
        callback: Plug-ins that act during training, by name, in the order of their calls; None without.
        replay: A plug-in that stores experience, if any.
        dataset: A plug-in that provides recorded experience, if any.
    """

    schema: ClassVar[int] = 2
    """Schema version of its file, which determines how identities are computed."""

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
        """Identity of the run: sha256 of the fingerprint and the fields in `RUN`."""
        hashed: dict[str, Any] = {"configuration": self.fingerprint, "phase": self.phase}
        hashed |= {"root": self.root, "seed": self.seed}
        if self.parent is not None:
            hashed["parent"] = asdict(self.parent)
        elif type(self.root) is type(self.seed) is int and isinstance(self.phase, Phase):
            # The canonical JSON, written without an encoder: there may be ten thousand runs.
            text = f'{{"configuration":"{self.fingerprint}","phase":"{self.phase}",'
            text += f'"root":{self.root},"seed":{self.seed}}}'
            return sha256(text.encode()).hexdigest()
        return digest(hashed)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the configuration: sha256 of the identifying parts of its fields."""
        return digest(configuration_identity(self.parts))

    @property
    def parts(self) -> dict[str, Any]:
        """The fields of the configuration that are not null."""
        every = {name: getattr(self, name) for name in CONFIGURATION}
        return {name: part for name, part in every.items() if part is not None}

    @property
    def is_of_candidate(self) -> bool:
        """Whether a candidate of a stream trains the run, whose code is not trusted with its score."""
        return self.code is not None and not self.code.startswith(OF_COMMIT)

    @cached_property
    def name(self) -> str:
        """Name of the run's folder: `ppo-test-0-1a2b3c4d5e`."""
        return f"{self._learner}-{self.phase}-{self.seed}-{self.id[:10]}"

    @cached_property
    def _learner(self) -> str:
        return short_name(self.algorithm)

    def again(self, phase: Phase, root: int, seed: int, parent: Parent | None = None) -> Self:
        """The run of the same configuration with another seed, and with another or no parent."""
        # Copying the instance's dictionary keeps its cached properties: ten thousand runs hash
        # their configuration once.
        _ = self.fingerprint, self._learner
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        for computed in ("id", "name"):
            other.__dict__.pop(computed, None)
        other.__dict__.update(phase=phase, root=root, seed=seed, parent=parent)
        return other

    @property
    def imported(self) -> Plain | None:
        """The origin of a run that another tool made; None for a run of rlexp."""
        marked = self.algorithm.get("imported")
        return marked if isinstance(marked, Mapping) else None

    @property
    def quantity(self) -> str:
        """What the score is made of: `return`, or the name of a measure or an imported metric."""
        return scored_quantity(self.algorithm, self.budget["score"])

    @property
    def unit(self) -> str:
        """The unit of its steps, as `environment.unit` writes it (`environment_steps`)."""
        return unit_of(self.environment)

    @property
    def offline_steps(self) -> int:
        """Gradient steps on its dataset before its first environment step.

        0 for a run that continues another one, which has taken them, and for a script, which decides on its
        own.
        """
        declared = (self.dataset or {}).get("offline_steps")
        begins = self.parent is None and not self.external
        return declared if isinstance(declared, int) and begins else 0

    @property
    def hang_timeout(self) -> float | None:
        """Seconds without a heartbeat after which this run counts as hung; None for the executor's."""
        limit = self.algorithm.get("hang_timeout") if self.external else None
        return float(limit) if isinstance(limit, int | float) else None

    @property
    def external(self) -> bool:
        """Whether an external training script executes the run."""
        part = self.algorithm
        return isinstance(part, Mapping) and isinstance(part.get("command"), str)

    @property
    def compiled(self) -> bool:
        """Whether the run's training is a compiled program, which later runs can use again."""
        return "twin_digest" in self.algorithm

    @property
    def batch(self) -> int:
        """How many runs are advanced together where this one is; 1 for a run by itself."""
        return int(self.compute.get(BATCH) or 1) if self.compiled else 1

    @property
    def streams(self) -> Streams:
        """All seeds that the run passes to libraries."""
        return Streams(self.root, self.phase, self.seed)

    def plain(self) -> dict[str, Any]:
        """The fields that are not null, as a mapping of JSON values."""
        fields = {name: getattr(self, name) for name in (*CONFIGURATION, *RUN)}
        if self.parent is not None:
            fields["parent"] = asdict(self.parent)
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_plain(cls, mapping: Plain) -> Self:
        """The run of a mapping of JSON values; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: The parent has unknown fields.
            ValueError: The phase, the root or the seed is invalid.
        """
        values = {name: mapping[name] for name in (*ALWAYS, "phase", "root", "seed")}
        for name in ("root", "seed"):
            # For `isinstance`, JSON's `true` is an integer, but it is hashed to another identity
            # than 1.
            if type(values[name]) is not int:
                raise ValueError(f"{name}={values[name]!r} is no whole number")
        values |= {name: mapping.get(name) for name in CONFIGURATION if name not in ALWAYS}
        if mapping.get("parent") is not None:
            values["parent"] = Parent(**mapping["parent"])
        return cls(**{**values, "phase": Phase(mapping["phase"])})


def configuration_identity(parts: Plain) -> dict[str, Any]:
    """The part of a configuration that is hashed.

    Args:
        parts: The fields of the configuration, by name.
    """
    hashed = {k: identifying(v) if k in PLUG_INS else without_null(v) for k, v in parts.items()}
    if components := _components(hashed["environment"]):
        # The order of components matters. Canonical JSON sorts keys, so a list is hashed.
        in_order = [identifying(component) for component in components.values()]
        hashed["environment"] = {**hashed["environment"], COMPONENTS: in_order}
    if callbacks := _mapping(hashed.get(CALLBACK)):
        # So does the order of callbacks: each is called after the one before.
        hashed[CALLBACK] = [identifying(callback) for callback in callbacks.values()]
    return hashed


def described(parts: Plain) -> dict[str, Any]:
    """The part of a configuration that is hashed, in the form in which differences are shown.

    Args:
        parts: The fields of the configuration, by name.
    """
    shown = configuration_identity(parts)
    if components := _components(parts["environment"]):
        named = {name: identifying(component) for name, component in components.items()}
        shown["environment"] = {**shown["environment"], COMPONENTS: named}
        if len(named) > 1:
            shown["environment"]["order_of_components"] = list(named)
    if callbacks := _mapping(parts.get(CALLBACK)):
        shown[CALLBACK] = {name: identifying(callback) for name, callback in callbacks.items()}
        if len(callbacks) > 1:
            shown[CALLBACK]["order_of_callbacks"] = list(callbacks)
    return shown


def _components(environment: Any) -> Plain:
    return _mapping(_mapping(environment).get(COMPONENTS))


def _mapping(value: Any) -> Plain:
    """The value, or an empty mapping: a file may hold anything."""
    return value if isinstance(value, Mapping) else {}
