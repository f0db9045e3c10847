"""Events as JSON: nothing is lost when they are written to disk and read again."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.errors import RecordError
from rlexp.records.events import (
    KINDS,
    Checkpointed,
    Continued,
    Ending,
    Evaluated,
    Event,
    Examined,
    Failure,
    Inherited,
    Measured,
    Refused,
    RunEnded,
    RunStarted,
    from_plain,
    to_plain,
)

times = st.floats(0, 4e9)
steps = st.integers(0, 10**12)
numbers = st.floats()
texts = st.text(max_size=20)


@st.composite
def episodes(draw: st.DrawFn) -> dict[str, Any]:
    """The fields that evaluations and examinations share, with or without measures."""
    returns = draw(st.lists(numbers, min_size=1, max_size=5))
    a_measure = st.tuples(*[numbers] * len(returns))
    return {
        "time": draw(times),
        "step": draw(steps),
        "returns": tuple(returns),
        "lengths": tuple(draw(st.integers(1, 10**6)) for _ in returns),
        "seconds": draw(times),
        "measures": draw(st.none() | st.dictionaries(texts, a_measure, min_size=1)),
    }


@st.composite
def evaluations(draw: st.DrawFn) -> Evaluated:
    """Any evaluation, including NaN and infinite returns."""
    return Evaluated(**draw(episodes()), final=draw(st.booleans()))


any_event = (
    st.builds(RunStarted, time=times, attempt=steps, pid=steps, host=texts)
    | st.builds(Measured, time=times, step=steps, metrics=st.dictionaries(texts, numbers))
    | evaluations()
    | st.builds(lambda common, name: Examined(**common, distribution=name), episodes(), texts)
    | st.builds(Refused, time=times, step=steps, reason=texts)
    | st.builds(Continued, time=times, step=steps, drift=st.none() | st.text())
    | st.builds(Checkpointed, time=times, step=steps, name=texts, seconds=times, bytes=steps)
    | st.builds(
        RunEnded,
        time=times,
        step=steps,
        ending=st.sampled_from(Ending),
        seconds=times,
        failure=st.none() | st.sampled_from(Failure),
        reason=st.none() | texts,
        weights=st.none() | texts,
    )
)


@given(any_event)
def test_an_event_survives_the_journal(event: Event) -> None:
    """An event written as strict JSON and read again is the same, even with NaN and infinities."""
    text = json.dumps(to_plain(event), allow_nan=False)
    assert repr(event) == repr(from_plain(json.loads(text)))


@given(any_event)
def test_an_event_is_one_line(event: Event) -> None:
    """No text in an event adds a line break to the journal."""
    assert "\n" not in json.dumps(to_plain(event))


def test_numbers_that_json_lacks_become_their_names() -> None:
    """NaN and infinities are written as strings, which every JSON reader accepts."""
    event = Measured(time=0.0, step=1, metrics={"a": math.nan, "b": -math.inf, "c": 1.0})
    assert {"a": "nan", "b": "-inf", "c": 1.0} == to_plain(event)["metrics"]


def test_every_kind_has_a_tag_of_its_own() -> None:
    """Every kind of event has its own tag, and the tag gives the kind."""
    kinds: set[type[Event]] = {
        RunStarted,
        Refused,
        Continued,
        Inherited,
        Measured,
        Evaluated,
        Examined,
        Checkpointed,
        RunEnded,
    }
    assert kinds == set(KINDS.values())
    assert {kind.tag: kind for kind in kinds} == dict(KINDS)


ENDED = {"event": "ended", "time": 1.0, "step": 2, "ending": "completed", "seconds": 3.0}
EVALUATED = {
    "event": "evaluated",
    "time": 1.0,
    "step": 2,
    "returns": [1.0],
    "lengths": [1],
    "seconds": 0.5,
}
STARTED = {"event": "started", "time": 1.0, "attempt": 1, "pid": 1, "host": "h"}


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        7,
        None,
        "ended",
        {"event": None},
        {"event": "finished"},
        {"event": ["ended"]},
        {**ENDED, "ending": "succeeded"},
        {**ENDED, "failure": "bored"},
        {**ENDED, "step": "many"},
        {**ENDED, "time": None},
        {**ENDED, "mood": "good"},
        {k: v for k, v in ENDED.items() if k != "seconds"},
        {**EVALUATED, "returns": []},
        {**EVALUATED, "returns": ["high"]},
        {**EVALUATED, "returns": 5},
        {**EVALUATED, "lengths": [None]},
        {**EVALUATED, "step": [1]},
        {"event": "measured", "time": 1.0, "step": 1, "metrics": [1]},
        {"event": "measured", "time": 1.0, "step": 1, "metrics": {"loss": {}}},
        {**STARTED, "time": "late"},
    ],
)
def test_damaged_events_are_refused(document: Any) -> None:
    """A document that is no valid event is refused when it is read."""
    with pytest.raises(RecordError, match="not an event"):
        from_plain(document)


@pytest.mark.parametrize("document", [ENDED, EVALUATED, STARTED])
def test_undamaged_samples_are_events(document: dict[str, Any]) -> None:
    """The samples of the test above are valid events before they are damaged."""
    assert document["event"] == from_plain(document).tag


def test_an_evaluation_is_the_mean_of_its_episodes() -> None:
    """The mean of an evaluation is exact, even where a plain sum would be rounded."""
    event = Evaluated(
        time=0.0, step=0, returns=(1e16, 1.0, -1e16, 1.0), lengths=(1, 1, 1, 1), seconds=0.0
    )
    assert 0.5 == event.mean


@pytest.mark.parametrize("returns", [(math.inf, -math.inf), (1e308, 1e308)])
def test_a_mean_that_is_no_number_is_nan(returns: tuple[float, ...]) -> None:
    """Returns with both infinities, or with a too large sum, have a NaN mean."""
    event = Evaluated(time=0.0, step=0, returns=returns, lengths=(1, 1), seconds=0.0)
    assert math.isnan(event.mean)


def test_an_evaluation_without_episodes_cannot_be_made() -> None:
    """An evaluation without episodes is refused, because it has no mean."""
    with pytest.raises(ValueError, match="needs at least one episode"):
        Evaluated(time=0.0, step=0, returns=(), lengths=(), seconds=0.0)


def test_failures_of_the_configuration() -> None:
    """NaN, environment and user failures belong to the configuration, others to the machine."""
    configuration = {Failure.NAN, Failure.ENVIRONMENT, Failure.USER}
    assert configuration == {failure for failure in Failure if not failure.of_the_machine}


def test_every_episode_has_its_measures() -> None:
    """A measure with fewer values than episodes is refused."""
    with pytest.raises(ValueError, match="cost has 2 values for 3 episodes"):
        Evaluated(
            time=0.0,
            step=1,
            returns=(1.0, 2.0, 3.0),
            lengths=(1, 1, 1),
            seconds=0.0,
            measures={"cost": (0.0, 1.0)},
        )


def test_an_evaluation_without_measures_is_written_as_it_always_was() -> None:
    """The journal of a task without measures does not contain the key `measures`."""
    event = Evaluated(time=0.0, step=1, returns=(1.0,), lengths=(1,), seconds=0.0)
    assert "measures" not in to_plain(event)
