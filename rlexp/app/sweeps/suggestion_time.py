"""How long the tuner of a sweep takes for its suggestions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rlexp.records.trial import Trial
from rlexp.tuners import Suggester, Suggestion


@dataclass(slots=True)
class TimedSuggester:
    """A tuner with a stopwatch: seconds of the last suggestion, of all, and of the longest."""

    suggester: Suggester
    last: float = 0.0
    total: float = 0.0
    longest: float = 0.0
    suggestions: int = 0

    def needs(self, number: int) -> int:
        """See `Suggester.needs`."""
        return self.suggester.needs(number)

    def trained_steps(self, number: int) -> int | None:
        """See `PopulationSuggester.trained_steps`; None for other tuners."""
        trained = getattr(self.suggester, "trained_steps", None)
        return None if trained is None else trained(number)

    def place(self, number: int) -> str | None:
        """Where a trial stands in a population, in words; None for other tuners."""
        name = getattr(self.suggester, "place", None)
        return None if name is None else name(number)

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """See `Suggester.suggest`; the time it takes is added up."""
        begun = time.monotonic()
        suggestion = self.suggester.suggest(trials, number)
        self.last = time.monotonic() - begun
        self.total += self.last
        self.longest = max(self.longest, self.last)
        self.suggestions += 1
        return suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionTime:
    """The time that the tuner took for the suggestions of one command.

    Attributes:
        suggestions: Number of suggestions.
        seconds: Duration of all suggestions, in seconds.
        longest: Duration of the longest suggestion, in seconds.
        share: `seconds` as a share of the training time of all tuning runs.
    """

    suggestions: int
    seconds: float
    longest: float
    share: float
