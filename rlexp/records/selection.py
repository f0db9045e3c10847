"""The selection of a sweep's winner: made once, before any test run exists."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DEFAULT = 0
"""Number of the trial that is always the default configuration."""
TUNED = "tuned"
"""Label of the test runs of the winner, unless that is the default configuration."""


SCHEDULE, FIXED = "best schedule", "best fixed"
RIVALS = frozenset({SCHEDULE, FIXED})
"""Labels of the test runs of a rival."""


def configuration_name(trial: int, winner: int | None, label: str | None = None) -> str:
    """The name of a trial's configuration, everywhere the same.

    It is `default (trial 0)`, `tuned (trial 7)` for the winner, `best fixed (trial 15)` for the rival of
    a population's winner, and `trial 3` for others.

    Args:
        trial: The number of the trial.
        winner: The number of the winner; None before the selection.
        label: The label of its test runs, if it has any.
    """
    if trial == DEFAULT:
        return f"default (trial {trial})"
    if label in RIVALS:
        return f"{label} (trial {trial})"
    return f"{TUNED} (trial {trial})" if trial == winner else f"trial {trial}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A candidate for the winner, with its tuning and selection scores."""

    number: int
    tuning: tuple[float, ...]
    selection: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """What the winner of a population is compared with on test seeds, and its label there.

    Beside a schedule it is the best fixed configuration, which cost as much to find; beside a fixed
    configuration, the best schedule.
    """

    number: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMember:
    """A trial of the front: the value of each objective, in its units, aggregated over seeds.

    Attributes:
        number: The number of the trial.
        tuning: On tuning seeds.
        selection: On selection seeds; empty where the front is that on tuning seeds.
    """

    number: int
    tuning: tuple[float, ...]
    selection: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The finalists that no other finalist dominates: all of them run on test seeds.

    Attributes:
        objectives: The names of the objectives.
        minimised: Those whose lower values are better.
        reference: The point from which hypervolumes are measured, in units of the objectives.
        reference_rule: Where this point comes from, in words.
        members: The trials of the front, in order of their numbers.
    """

    objectives: tuple[str, ...]
    minimised: tuple[str, ...]
    reference: tuple[float, ...]
    reference_rule: str
    members: tuple[FrontMember, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the trials."""
        return tuple(member.number for member in self.members)

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> "Front":
        """The front of a mapping of JSON values; the inverse of `asdict`.

        Raises:
            KeyError: A field is missing.
        """
        return cls(
            objectives=tuple(mapping["objectives"]),
            minimised=tuple(mapping["minimised"]),
            reference=tuple(map(float, mapping["reference"])),
            reference_rule=str(mapping["reference_rule"]),
            members=tuple(
                FrontMember(
                    number=int(member["number"]),
                    tuning=tuple(map(float, member["tuning"])),
                    selection=tuple(map(float, member["selection"])),
                )
                for member in mapping["members"]
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The winner, the finalists from which it was chosen, and the rule.

    A population has a rival, too, and a sweep of several objectives its front.
    """

    winner: int
    finalists: tuple[Finalist, ...]
    rule: str
    rival: Rival | None = None
    front: Front | None = None

    @property
    def tested(self) -> tuple[int, ...]:
        """The numbers of the trials that run on test seeds, without repetition; the default is last."""
        rivals = () if self.rival is None else (self.rival.number,)
        front = () if self.front is None else self.front.numbers
        others = dict.fromkeys(n for n in (self.winner, *rivals, *front) if n != DEFAULT)
        return (*others, DEFAULT)

    @property
    def further(self) -> tuple[int, ...]:
        """The trials that are tested besides winner and default: a rival, or the rest of a front."""
        return tuple(n for n in self.tested if n not in {self.winner, DEFAULT})

    def plain(self) -> dict[str, Any]:
        """The content of `selection.json`."""
        rival = {} if self.rival is None else {"rival": asdict(self.rival)}
        return {
            "winner": self.winner,
            "default": DEFAULT,
            "rule": self.rule,
            "finalists": [asdict(finalist) for finalist in self.finalists],
            **rival,
            **({} if self.front is None else {"front": asdict(self.front)}),
        }

    def label(self, number: int) -> str:
        """The label of the test runs of a trial that is not the default configuration."""
        if number == self.winner:
            return TUNED
        if self.rival is not None and number == self.rival.number:
            return self.rival.label
        return configuration_name(number, self.winner)

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> "Selection":
        """The selection of a mapping of JSON values; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: The rule is not a string.
        """
        if not isinstance(mapping["rule"], str):
            raise TypeError(f"the rule is {mapping['rule']!r}")
        return cls(
            winner=mapping["winner"],
            rule=mapping["rule"],
            rival=Rival(**mapping["rival"]) if mapping.get("rival") is not None else None,
            front=Front.from_plain(mapping["front"]) if mapping.get("front") is not None else None,
            finalists=tuple(
                Finalist(
                    number=finalist["number"],
                    tuning=tuple(finalist["tuning"]),
                    selection=tuple(finalist["selection"]),
                )
                for finalist in mapping["finalists"]
            ),
        )

    @property
    def chosen(self) -> Finalist:
        """The winner among the finalists."""
        return next(f for f in self.finalists if f.number == self.winner)
