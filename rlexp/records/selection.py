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
class Selection:
    """The winner, the finalists from which it was chosen, the rule, and the rival in a population."""

    winner: int
    finalists: tuple[Finalist, ...]
    rule: str
    rival: Rival | None = None

    @property
    def tested(self) -> tuple[int, ...]:
        """The numbers of the trials that run on test seeds, without repetition; the default is last."""
        rivals = () if self.rival is None else (self.rival.number,)
        others = dict.fromkeys(n for n in (self.winner, *rivals) if n != DEFAULT)
        return (*others, DEFAULT)

    def plain(self) -> dict[str, Any]:
        """The content of `selection.json`."""
        rival = {} if self.rival is None else {"rival": asdict(self.rival)}
        return {
            "winner": self.winner,
            "default": DEFAULT,
            "rule": self.rule,
            "finalists": [asdict(finalist) for finalist in self.finalists],
            **rival,
        }

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
