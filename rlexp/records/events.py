"""The events of a run's journal, and their conversion to and from JSON."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

from rlexp.errors import RecordError
from rlexp.protocol.measures import RETURN


class Ending(StrEnum):
    """Outcome of an attempt."""

    COMPLETED = "completed"
    FAILED = "failed"
    PRUNED = "pruned"
    INTERRUPTED = "interrupted"


class Failure(StrEnum):
    """Kind of failure of an attempt."""

    NAN = "nan"
    ENVIRONMENT = "environment"
    USER = "user"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    HUNG = "hung"
    CRASHED = "crashed"
    DISK = "disk"

    @property
    def of_the_machine(self) -> bool:
        """Whether the machine caused the failure, so that another attempt may succeed.

        Failures that the configuration caused are final until `--retry`.
        """
        return self not in {Failure.NAN, Failure.ENVIRONMENT, Failure.USER}


OF_THE_JOURNAL = ("schema", "rlexp")
"""Keys of the first event that describe the journal: its schema and the version of rlexp."""
Measures = Mapping[str, tuple[float, ...]]
"""Additional numbers of an evaluation by name (`success`, `cost`, `context/length`): one for each
episode, NaN for an episode without the number."""


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Request to end a run before its budget; `rung` is the step at which a run was pruned."""

    ending: Ending
    reason: str
    rung: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """An attempt began, from scratch unless a `Continued` event follows."""

    tag: ClassVar[str] = "started"
    time: float
    attempt: int
    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The checkpoint at `step` exists, but the attempt did not continue from it."""

    tag: ClassVar[str] = "refused"
    time: float
    step: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """The attempt continued from the checkpoint at `step`, which `attempt` made.

    Events of that attempt up to `step` count. `drift` names what changed since the checkpoint was
    made, if the user allowed a change.
    """

    tag: ClassVar[str] = "continued"
    time: float
    step: int
    attempt: int
    drift: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """The events before this one are those of the parent, `run` of `experiment`, up to `step`."""

    tag: ClassVar[str] = "inherited"
    time: float
    step: int
    experiment: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Metrics that the learner logged, with the library's names and at its interval."""

    tag: ClassVar[str] = "measured"
    time: float
    step: int
    metrics: Mapping[str, float]


class EpisodeValues:
    """What evaluations and examinations have in common: episodes of one policy."""

    __slots__ = ()

    returns: tuple[float, ...]
    measures: Measures | None

    @property
    def mean(self) -> float:
        """Mean return over the episodes; NaN if the sum overflows or is undefined."""
        return _mean(self.returns)

    def mean_of(self, quantity: str) -> float:
        """Mean of the return or of a measure over all episodes.

        NaN if an episode lacks the measure, or if the sum overflows or is undefined.
        """
        return math.nan if self.lacking(quantity) else _mean(self.values_of(quantity))

    def mean_of_reported(self, measure: str) -> float | None:
        """Mean of a measure over the episodes that report it; None where it is no number."""
        reported = [value for value in self.values_of(measure) if not math.isnan(value)]
        mean = _mean(reported) if reported else math.nan
        return mean if math.isfinite(mean) else None

    def values_of(self, quantity: str) -> tuple[float, ...]:
        """The return or the measure of each episode; empty if no episode reports the measure."""
        return self.returns if quantity == RETURN else (self.measures or {}).get(quantity, ())

    def lacking(self, quantity: str) -> int:
        """The number of episodes that do not report a quantity."""
        values = self.values_of(quantity)
        if quantity == RETURN:
            return 0
        return sum(map(math.isnan, values)) if values else len(self.returns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated(EpisodeValues):
    """All episodes of an evaluation: undiscounted returns, lengths in steps, other measures."""

    tag: ClassVar[str] = "evaluated"
    time: float
    step: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seconds: float
    final: bool = False
    measures: Measures | None = None

    def __post_init__(self) -> None:
        """Refuse an evaluation without episodes, which would have no mean."""
        _check_episodes(self.returns, self.measures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined(EpisodeValues):
    """Additional episodes of the final policy on another distribution; they are not in the score.

    `distribution` is `in_distribution` for episodes on the training distribution, if the
    evaluations use held-out contexts.
    """

    tag: ClassVar[str] = "examined"
    time: float
    step: int
    distribution: str
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seconds: float
    measures: Measures | None = None

    def __post_init__(self) -> None:
        """Refuse an examination without episodes, which would have no mean."""
        _check_episodes(self.returns, self.measures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """A complete checkpoint was published, with its size in bytes and its duration in seconds."""

    tag: ClassVar[str] = "checkpointed"
    time: float
    step: int
    name: str
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The attempt ended. `weights` is the sha256 of the final parameters.

    `rung` is the step at which a pruned run was judged; later evaluations do not count. `reason` of a
    completed attempt says why it ended before its budget was used. `acted` says how often each callback,
    component and teacher that counts it has acted, by its kind and name (`callback resets`).
    `training_shift` is the divergence between the contexts or levels of training and their target.
    """

    tag: ClassVar[str] = "ended"
    time: float
    step: int
    ending: Ending
    seconds: float
    failure: Failure | None = None
    reason: str | None = None
    weights: str | None = None
    rung: int | None = None
    acted: Mapping[str, int] | None = None
    training_shift: float | None = None


Event = (
    RunStarted
    | Refused
    | Continued
    | Inherited
    | Measured
    | Evaluated
    | Examined
    | Checkpointed
    | RunEnded
)
KINDS: Mapping[str, type[Event]] = {
    kind.tag: kind
    for kind in (
        RunStarted,
        Refused,
        Continued,
        Inherited,
        Measured,
        Evaluated,
        Examined,
        Checkpointed,
        RunEnded,
    )
}


def to_plain(event: Event) -> dict[str, Any]:
    """The event as JSON values; NaN and infinities, which JSON lacks, become strings (`"nan"`)."""
    values = {f.name: _encode(getattr(event, f.name)) for f in fields(event)}
    # Journals of versions without these fields must keep their bytes, and so their checksums.
    for added in ("measures", "acted", "training_shift"):
        if values.get(added, values) is None:
            del values[added]
    return {"event": event.tag, **values}


def from_plain(mapping: Mapping[str, Any]) -> Event:
    """The event of a mapping of JSON values; the inverse of `to_plain`.

    Raises:
        RecordError: The mapping is not an event of this version.
    """
    try:
        values = {**mapping}
        kind = KINDS[values.pop("event")]
        if kind is RunStarted:
            # The first line of a journal has keys that describe the journal, not the event.
            values = {key: value for key, value in values.items() if key not in OF_THE_JOURNAL}
        values["time"] = float(values["time"])
        if kind is not RunStarted:
            # `int` raises OverflowError for an infinite number.
            values["step"] = int(values["step"])
        if convert := _CONVERSIONS.get(kind):
            convert(values)
        return kind(**values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RecordError(f"not an event: {error!r}") from error


def _of_measured(values: dict[str, Any]) -> None:
    # `float` also reads the strings that stand for NaN and infinities.
    values["metrics"] = {k: float(v) for k, v in values["metrics"].items()}


def _of_episodes(values: dict[str, Any]) -> None:
    values["returns"] = tuple(map(float, values["returns"]))
    values["lengths"] = tuple(map(int, values["lengths"]))
    if values.get("measures") is not None:
        values["measures"] = _measures(values["measures"])
    values["seconds"] = float(values["seconds"])


def _of_continued(values: dict[str, Any]) -> None:
    if values.get("drift") is not None:
        values["drift"] = str(values["drift"])


def _of_checkpointed(values: dict[str, Any]) -> None:
    if "seconds" in values:
        values["seconds"] = float(values["seconds"])


def _of_ended(values: dict[str, Any]) -> None:
    values["ending"] = Ending(values["ending"])
    if values.get("failure") is not None:
        values["failure"] = Failure(values["failure"])
    if values.get("acted") is not None:
        values["acted"] = {str(name): int(count) for name, count in values["acted"].items()}
    if values.get("training_shift") is not None:
        values["training_shift"] = float(values["training_shift"])
    values["seconds"] = float(values["seconds"])


_CONVERSIONS: Mapping[type[Event], Callable[[dict[str, Any]], None]] = {
    Measured: _of_measured,
    Evaluated: _of_episodes,
    Examined: _of_episodes,
    Continued: _of_continued,
    Checkpointed: _of_checkpointed,
    RunEnded: _of_ended,
}


def _measures(mapping: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    return {str(name): tuple(float(v) for v in values) for name, values in mapping.items()}


def _check_episodes(returns: tuple[float, ...], measures: Measures | None) -> None:
    if not returns:
        raise ValueError("an evaluation needs at least one episode")
    for name, values in (measures or {}).items():
        if len(values) != len(returns):
            raise ValueError(
                f"{name} has {len(values)} values for {len(returns)} episodes: "
                "give one value for each episode"
            )


def _mean(values: tuple[float, ...] | list[float]) -> float:
    # The exact sum makes the mean independent of the order of the episodes.
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):
        return math.nan


def _encode(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value
