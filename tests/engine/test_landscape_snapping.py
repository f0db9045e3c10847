"""The suggestions of tuners become configurations that were trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from landscape_replay import run
from landscape_samples import ROWS, landscape, replay
from landscape_snapping import Snapping

from rlexp.records.trial import Trial
from rlexp.tuners import Suggestion

LANDSCAPE = landscape()


@dataclass(frozen=True)
class ScriptedTuner:
    """A tuner that makes the given suggestions in order, from trial 1 on."""

    suggestions: tuple[Suggestion, ...]

    def needs(self, number: int) -> int:
        """The number of ended trials that a suggestion needs: none."""
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The next suggestion."""
        return self.suggestions[number - 1]


def snapped(*suggestions: Suggestion) -> list[Mapping[str, Any] | None]:
    """The configurations that suggestions become, with configuration 0 as the default."""
    snapping = Snapping(ScriptedTuner(suggestions), LANDSCAPE, default=0)
    snapped_suggestions = [snapping.suggest([], number + 1) for number in range(len(suggestions))]
    return [suggestion.parameters if suggestion else None for suggestion in snapped_suggestions]


def near(row: int, factor: float = 1.01) -> dict[str, Any]:
    """Parameters that lie next to a configuration and equal none."""
    values = dict(LANDSCAPE.rows[row])
    return {**values, "rate": min(values["rate"] * factor, 0.1)}


def test_a_suggestion_becomes_the_nearest_configuration() -> None:
    """A suggestion becomes the nearest configuration, with the values of that configuration."""
    expected = [LANDSCAPE.rows[5], LANDSCAPE.rows[8]]
    assert expected == snapped(Suggestion(near(5)), Suggestion(near(8)))


def test_nothing_is_tried_twice() -> None:
    """A suggestion near the default or near a tried configuration becomes the next nearest one."""
    rows = [LANDSCAPE.rows[2], LANDSCAPE.rows[5], LANDSCAPE.rows[7]]
    suggestions = [near(0), near(5), near(5, 1.02)]
    assert rows == snapped(*map(Suggestion, suggestions))


def test_the_same_again_is_the_same_again() -> None:
    """A repeated or continued suggestion becomes the same configuration again."""
    repetition = Suggestion(near(5), steps=40)
    continuation = Suggestion(near(8), parent=1)
    assert [LANDSCAPE.rows[5]] * 3 == snapped(Suggestion(near(5)), repetition, continuation)


def test_steps_are_kept() -> None:
    """A suggestion with fewer steps keeps its steps."""
    snapping = Snapping(ScriptedTuner((Suggestion(near(5), 20),)), LANDSCAPE, default=0)
    assert Suggestion(LANDSCAPE.rows[5], 20) == snapping.suggest([], 1)


def test_a_landscape_ends() -> None:
    """A sweep ends once every configuration was tried, whatever its budget."""
    outcome = run(replay(LANDSCAPE, trials=1000))
    assert ROWS == outcome.trials
    assert ROWS == len({record.spec.algorithm["row"] for record in outcome.records})
