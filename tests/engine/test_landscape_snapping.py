"""What tuners suggest becomes configurations that were trained."""

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
class Told:
    """A tuner that suggests what it is told to, from trial 1 on."""

    suggestions: tuple[Suggestion, ...]

    def needs(self, number: int) -> int:
        """No trial has to have ended."""
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The next one."""
        return self.suggestions[number - 1]


def snapped(*suggestions: Suggestion) -> list[Mapping[str, Any] | None]:
    """What becomes of suggestions where the default is configuration 0."""
    snapping = Snapping(Told(suggestions), LANDSCAPE, default=0)
    results = [snapping.suggest([], number + 1) for number in range(len(suggestions))]
    return [each.parameters if each else None for each in results]


def near(row: int, factor: float = 1.01) -> dict[str, Any]:
    """Parameters that lie next to a configuration, and on none."""
    values = dict(LANDSCAPE.rows[row])
    return {**values, "rate": min(values["rate"] * factor, 0.1)}


def test_a_suggestion_becomes_the_nearest_configuration() -> None:
    """With its own values, so that the tuner learns where the score is from."""
    expected = [LANDSCAPE.rows[5], LANDSCAPE.rows[8]]
    assert expected == snapped(Suggestion(near(5)), Suggestion(near(8)))


def test_nothing_is_tried_twice() -> None:
    """Neither the default nor what an earlier trial had: the next but one has the same switch."""
    rows = [LANDSCAPE.rows[2], LANDSCAPE.rows[5], LANDSCAPE.rows[7]]
    suggestions = [near(0), near(5), near(5, 1.02)]
    assert rows == snapped(*map(Suggestion, suggestions))


def test_the_same_again_is_the_same_again() -> None:
    """As a tuner means it that repeats itself, or takes a trial up with more steps."""
    again = Suggestion(near(5), steps=40)
    taken_up = Suggestion(near(8), parent=1)
    assert [LANDSCAPE.rows[5]] * 3 == snapped(Suggestion(near(5)), again, taken_up)


def test_steps_are_kept() -> None:
    """A low fidelity is one on the landscape too."""
    snapping = Snapping(Told((Suggestion(near(5), 20),)), LANDSCAPE, default=0)
    assert Suggestion(LANDSCAPE.rows[5], 20) == snapping.suggest([], 1)


def test_a_landscape_ends() -> None:
    """Once every configuration was tried, whatever the budget still holds."""
    outcome = run(replay(LANDSCAPE, trials=1000))
    assert ROWS == outcome.trials
    assert ROWS == len({record.spec.algorithm["row"] for record in outcome.records})
