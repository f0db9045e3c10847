"""The choice that ends a search: made once, before any test run exists."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DEFAULT = 0
"""Number of the trial that is the default configuration, always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A trial that could be chosen, with the scores that it could be chosen by."""

    number: int
    tuning: tuple[float, ...]
    selection: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The winner, what it was chosen from, and by which rule."""

    winner: int
    finalists: tuple[Finalist, ...]
    rule: str

    def plain(self) -> dict[str, Any]:
        """What `selection.json` says."""
        return {
            "winner": self.winner,
            "default": DEFAULT,
            "rule": self.rule,
            "finalists": [asdict(finalist) for finalist in self.finalists],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Selection":
        """The inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: The rule is no text.
        """
        if not isinstance(plain["rule"], str):
            raise TypeError(f"the rule is {plain['rule']!r}")
        return cls(
            winner=plain["winner"],
            rule=plain["rule"],
            finalists=tuple(
                Finalist(
                    number=one["number"],
                    tuning=tuple(one["tuning"]),
                    selection=tuple(one["selection"]),
                )
                for one in plain["finalists"]
            ),
        )

    @property
    def chosen(self) -> Finalist:
        """The winner among the finalists."""
        return next(f for f in self.finalists if f.number == self.winner)
