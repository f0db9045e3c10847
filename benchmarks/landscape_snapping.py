"""Tuners on landscapes: a suggestion becomes the nearest tabulated configuration."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from landscape_table import Landscape

from rlexp.protocol.identity import canonical
from rlexp.records.trial import Trial
from rlexp.tuners import Suggester, Suggestion


@dataclass
class Snapping:
    """A tuner whose suggestions are moved to the nearest configuration of the landscape.

    Nothing is trained twice: each goes to one that no earlier trial had, unless the tuner itself
    suggests the same again, as with more steps. So the tuner hears where its score is from.
    """

    suggester: Suggester
    landscape: Landscape
    default: int
    chosen: dict[int, int] = field(default_factory=dict)
    rows_of_suggestions: dict[str, int] = field(default_factory=dict)

    def needs(self, number: int) -> int:
        """The number of trials that the wrapped tuner needs."""
        return self.suggester.needs(number)

    def take(self, number: int, row: int) -> None:
        """Give a trial a configuration that the tuner does not suggest."""
        self.chosen[number] = row
        self.rows_of_suggestions[canonical(self.landscape.rows[row])] = row

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The nearest configuration to the suggestion; None after all were tried."""
        suggestion = self.suggester.suggest(trials, number)
        if suggestion is None or len(self.rows_of_suggestions) + 1 >= len(self.landscape.rows):
            return None
        row = self._row(suggestion)
        self.chosen[number] = row
        return Suggestion(self.landscape.rows[row], suggestion.steps, suggestion.parent)

    def _row(self, suggestion: Suggestion) -> int:
        if suggestion.parent is not None:
            return self.chosen.get(suggestion.parent, self.default)
        key = canonical(suggestion.parameters)
        if key not in self.rows_of_suggestions:
            taken = [self.default, *self.rows_of_suggestions.values()]
            self.rows_of_suggestions[key] = self.landscape.nearest(suggestion.parameters, taken)
        return self.rows_of_suggestions[key]
