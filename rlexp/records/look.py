"""Looks: uses of test scores, which a register counts.

Whoever compares many configurations on the same test seeds and keeps the best one has chosen by test
scores. The best mean score is then too good. The number of configurations says by how much.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from rlexp.errors import RecordError
from rlexp.protocol.identity import digest
from rlexp.records.json_values import as_text, as_whole_number


@dataclass(frozen=True, kw_only=True)
class Look:
    """One set of test scores that a command has used: of one configuration on one task.

    Attributes:
        configuration: The fingerprint of the configuration, which includes its budget.
        task: The task.
        root: The root of the seeds.
        seeds: The test seeds with a score, rising; at least one.
        steps: Environment steps of the budget of one run.
        score: The rule by which runs are scored.
        label: The label under which the scores were first used.
        experiment: The experiment in which they were first used.
        mean: The mean score.
        deviation: The standard deviation of the scores with n − 1 in the denominator; None for one
            seed.
    """

    configuration: str
    task: str
    root: int
    seeds: tuple[int, ...]
    steps: int
    score: str
    label: str
    experiment: str
    mean: float
    deviation: float | None

    @cached_property
    def id(self) -> str:
        """Identity of the look: sha256 of configuration, task, root and seeds."""
        return digest([self.configuration, self.task, self.root, list(self.seeds)])

    def plain(self) -> dict[str, Any]:
        """As JSON values: the identity first, and a checksum of all other values last."""
        # Not `asdict`, which copies every seed by a call of a function.
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["seeds"] = list(self.seeds)
        return {"look": self.id, **values, "sum": digest(values)}

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> Self:
        """The look of a mapping of JSON values; the inverse of `plain`.

        Raises:
            RecordError: The mapping is not a look of this version.
        """
        try:
            deviation = mapping["deviation"]
            look = cls(
                **{name: as_text(mapping[name]) for name in TEXTS},
                root=as_whole_number(mapping["root"]),
                seeds=tuple(as_whole_number(seed) for seed in mapping["seeds"]),
                steps=as_whole_number(mapping["steps"]),
                mean=_finite(mapping["mean"]),
                deviation=None if deviation is None else _finite(deviation),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"not a look: {error!r}") from error
        if list(look.seeds) != sorted(set(look.seeds)) or not look.seeds:
            raise RecordError("not a look: its seeds are not a rising list")
        # The last line of a register has no line behind it that would hold its checksum.
        if {key: mapping.get(key) for key in ("look", "sum")} != {
            key: look.plain()[key] for key in ("look", "sum")
        }:
            raise RecordError("not a look: its checksum is not that of its content")
        return look


TEXTS = ("configuration", "task", "score", "label", "experiment")
"""Fields of a look that are texts."""


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRegister:
    """The content of a register of looks.

    Attributes:
        looks: The looks that were asked for, in the order in which they were entered.
        sums: The sha256 of every complete line.
        sha256: The sha256 of the whole file; None where there is none.
        breaks: Messages about the places where the chain of checksums is broken.
        torn: Whether the last line is incomplete.
    """

    looks: tuple[Look, ...] = ()
    sums: tuple[str, ...] = ()
    sha256: str | None = None
    breaks: tuple[str, ...] = ()
    torn: bool = False

    @property
    def head(self) -> str | None:
        """The sha256 of the last line, which depends on all lines; None for an empty register."""
        return self.sums[-1] if self.sums else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsOfTask:
    """The test seeds of a task that scores are used on.

    Attributes:
        task: The task.
        root: The root of the seeds.
        seeds: The seeds.
    """

    task: str
    root: int
    seeds: frozenset[int] = field(default=frozenset())

    def is_used_by(self, look: Look) -> bool:
        """Whether a look has used one of the seeds."""
        return (look.task, look.root) == (self.task, self.root) and not self.seeds.isdisjoint(
            look.seeds
        )


def looks_by_configuration(looks: Iterable[Look], seeds: SeedsOfTask) -> tuple[Look, ...]:
    """The look with the most seeds of every configuration, among those that used these seeds.

    Sorted by configuration, so that the order of the looks changes nothing.
    """
    largest: dict[str, Look] = {}
    for look in filter(seeds.is_used_by, looks):
        present = largest.setdefault(look.configuration, look)
        # The second part decides between looks with equally many seeds.
        if (len(look.seeds), look.id) > (len(present.seeds), present.id):
            largest[look.configuration] = look
    return tuple(largest[name] for name in sorted(largest))


def digest_of_looks(looks: Iterable[Look]) -> str:
    """The sha256 of the looks that are counted, which does not depend on their order."""
    return digest(sorted([look.id, look.mean, look.deviation] for look in looks))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLooks:
    """The looks at the test seeds of one task that a report uses.

    Attributes:
        seeds: The task, and its test seeds with a score in the report.
        looks: One look of every configuration that was looked at on any of these seeds.
    """

    seeds: SeedsOfTask
    looks: tuple[Look, ...]

    @property
    def digest(self) -> str:
        """The sha256 of the counted looks."""
        return digest_of_looks(self.looks)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLooks:
    """The looks that belong to the test scores of a report.

    Attributes:
        tasks: The looks by task and root of the test seeds, sorted.
        problems: What is wrong with the register, as sentences without a full stop.
        register: The sha256 of the file of the register; None where there is none.
    """

    tasks: tuple[TaskLooks, ...] = ()
    problems: tuple[str, ...] = ()
    register: str | None = None
