"""The results file of a script: every line is checked, and errors name the line."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from rlexp.protocol.budget import Budget
from rlexp.records.events import Evaluated, Failure, Measured
from rlexp.training.scripts.script_results import (
    EarlierAttempt,
    Results,
    ScriptEvent,
    ScriptFault,
    Tail,
    evaluations_in,
)


def results(score: Any = "final") -> Results:
    """Results of 100 steps, with evaluations of one episode and a final one of two episodes."""
    budget = Budget(
        steps=100,
        evaluation_every=50,
        evaluation_episodes=1,
        evaluation_deterministic=True,
        final_episodes=2,
        score=score,
    )
    return Results(budget, lambda: 7.0)


def events_of(*lines: Any, score: Any = "final") -> list[ScriptEvent]:
    """The events of a complete results file with these lines."""
    reader = results(score)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    events = [event for text in texts for event in reader.read(text.encode())]
    reader.check_whole()
    return events


FINAL = {"step": 100, "returns": [1, 2.5], "final": True}


def test_lines_become_events() -> None:
    """Lines become metrics, evaluations with and without lengths, and the final evaluation."""
    metrics_event, evaluation, final_evaluation = events_of(
        {"step": 5},
        {"step": 10, "metrics": {"loss": 1, "entropy": math.nan}},
        {"step": 50, "returns": [3], "lengths": [4], "seconds": 0.5},
        FINAL,
    )
    assert isinstance(metrics_event, Measured)
    assert (10, 1.0, True) == (
        metrics_event.step,
        metrics_event.metrics["loss"],
        math.isnan(metrics_event.metrics["entropy"]),
    )
    assert (
        Evaluated(time=7.0, step=50, returns=(3.0,), lengths=(4,), seconds=0.5),
        Evaluated(time=7.0, step=100, returns=(1.0, 2.5), lengths=(), seconds=0.0, final=True),
    ) == (evaluation, final_evaluation)


def test_measures_are_passed_on() -> None:
    """Measures have one number per episode; null becomes NaN."""
    (event,) = events_of({**FINAL, "measures": {"success": [1, None]}})
    assert isinstance(event, Evaluated)
    assert event.measures is not None
    assert (1.0, True) == (event.measures["success"][0], math.isnan(event.measures["success"][1]))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1 of the results file: it is not JSON: '{'"),
        (["[" * 100_000], "line 1 of the results file: it is not JSON"),
        (["[1]"], "it is not a JSON object"),
        ([{"step": 1, "return": [1]}], "unknown key 'return'; did you mean 'returns'?"),
        ([{"metrics": {}}], "step=None is no number of environment steps"),
        ([{"step": 1.5}], "step=1.5 is no number"),
        ([{"step": True}], "step=True is no number"),
        ([{"step": -1}], "step=-1 is no number"),
        ([{"step": 9}, {"step": 8}], "line 2 of the results file: step 8 goes back behind step 9"),
        ([{"step": 201}], "step 201 is far beyond budget.steps=100"),
        ([{"step": 1, "metrics": {"loss": "low"}}], "metrics must be a mapping"),
        ([{"step": 1, "metrics": {"loss": 10**400}}], "metrics must be a mapping"),
        ([{"step": 1, "final": True}], "final needs returns in the same line"),
        ([{"step": 1, "returns": 1}], "returns must be a list of numbers"),
        ([{"step": 1, "returns": [True]}], "returns must be a list of numbers"),
        ([{"step": 1, "returns": []}], "0 returns, where budget.evaluation_episodes=1"),
        ([{**FINAL, "returns": [1]}], "1 returns, where budget.final_episodes=2"),
        ([{**FINAL, "lengths": [1]}], "lengths must be a list of whole numbers"),
        ([{**FINAL, "lengths": [1, 0]}], "lengths must be a list of whole numbers"),
        ([{**FINAL, "seconds": -1}], "seconds=-1 is no duration"),
        ([{**FINAL, "final": 1}], "final=1 is neither true nor false"),
        ([{**FINAL, "measures": {"success": [1]}}], "success has 1 values for 2 episodes"),
        ([{**FINAL, "measures": {"success": ["yes", "no"]}}], "measures.success must be a list"),
        ([{**FINAL, "step": 89}], "at step 89, well before budget.steps=100"),
        ([FINAL, {"step": 100}], "no line may follow the final evaluation"),
        ([{"step": 50, "returns": [1]}] * 2, "step 50 has two evaluations"),
        ([{"step": 50, "returns": [1]}], "ended at step 50 without a final evaluation"),
        ([], "ended at step 0 without a final evaluation"),
    ],
)
def test_invalid_lines_are_refused(lines: list[Any], message: str) -> None:
    """An invalid line is a `user` failure with a message about the line."""
    with pytest.raises(ScriptFault) as error_info:
        events_of(*lines)
    assert (Failure.USER, True) == (error_info.value.failure, message in str(error_info.value)), (
        error_info.value
    )


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_return_that_is_not_finite_fails_as_nan(value: str) -> None:
    """A return that is not finite fails the run as `nan`."""
    with pytest.raises(ScriptFault) as error_info:
        events_of(f'{{"step": 100, "returns": [1, {value}], "final": true}}')
    assert Failure.NAN is error_info.value.failure
    assert "a return is no finite number at step 100" == str(error_info.value)


def test_a_score_from_the_curve_needs_an_evaluation() -> None:
    """A score from evaluations during training needs at least one."""
    with pytest.raises(
        ScriptFault, match=r"budget\.score=auc reads the evaluations during training"
    ):
        events_of(FINAL, score="auc")


def test_a_file_is_read_as_it_grows(tmp_path: Path) -> None:
    """A line counts when it is complete, or when the script has ended."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"one\ntw")
    tail = Tail(path)
    assert [b"one"] == tail.read()
    with path.open("ab") as file:
        file.write(b"o\n\nthree")
    assert [b"two"] == tail.read()
    assert [b"three"] == tail.read(whole=True)


@pytest.mark.parametrize(("truncate", "message"), [(True, "was cut"), (False, "was removed")])
def test_a_file_that_loses_lines_is_refused(truncate: bool, message: str, tmp_path: Path) -> None:
    """A results file that was truncated or removed is refused."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"one\n")
    tail = Tail(path)
    tail.read()
    if truncate:
        path.write_bytes(b"")
    else:
        path.unlink()
    with pytest.raises(ScriptFault, match=message):
        tail.read()


def test_a_scored_measure_must_be_written_for_every_episode() -> None:
    """A line without the measure that is scored is refused, and names what it has."""
    measures = {"success": [1, 0], "cost": [3, 4]}
    (evaluation,) = events_of({**FINAL, "measures": measures}, score="success")
    assert isinstance(evaluation, Evaluated)
    assert evaluation.mean_of("success") == 0.5
    with pytest.raises(
        ScriptFault, match="1 of 2 episodes of the final evaluation lack it"
    ) as info:
        events_of({**FINAL, "measures": {**measures, "success": [1, None]}}, score="success")
    assert info.value.failure is Failure.USER


EARLIER = {
    1: EarlierAttempt(moments=((20, 1.0), (50, 2.5), (80, 4.0)), evaluations=(50, 80)),
}


def continued(*lines: Any, earlier: Any = EARLIER) -> Results:
    """Results of a second attempt with these lines."""
    reader = results("auc")
    reader.earlier = earlier
    for line in lines:
        reader.read(json.dumps(line).encode())
    return reader


def test_a_script_continues_from_an_earlier_attempt() -> None:
    """Evaluations and seconds until the checkpoint count, and later ones do not."""
    reader = continued({"step": 60, "continues": 1}, FINAL)
    reader.check_whole()
    assert ([50], 2.5) == (reader.evaluations, reader.earlier_seconds)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            [{"step": 60, "continues": 2}],
            "continues=2 is no earlier attempt of this run (there are: 1)",
        ),
        ([{"step": 60, "continues": True}], "continues=True is no earlier attempt"),
        ([{"step": 5}, {"step": 60, "continues": 1}], "continues belongs in the first line"),
    ],
)
def test_a_script_cannot_continue_from_anything_else(lines: list[Any], reason: str) -> None:
    """The attempt must exist, and its line must be the first."""
    with pytest.raises(ScriptFault, match=re.escape(reason)):
        continued(*lines)


def test_a_script_without_permission_to_continue_is_told_the_setting() -> None:
    """Where algorithm.continues is false, there is no earlier attempt to name."""
    with pytest.raises(ScriptFault, match=r"set algorithm\.continues=true"):
        continued({"step": 60, "continues": 1}, earlier={})


def test_an_evaluation_that_a_killed_process_did_not_read_is_not_lost(tmp_path: Path) -> None:
    """The next attempt records the evaluations until its checkpoint that only the file holds."""
    path = tmp_path / "results.jsonl"
    lines = [
        {"step": 20, "continues": 1},
        {"step": 50, "returns": [3]},
        {"step": 80, "returns": [4]},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"step": 90, "ret')
    written = evaluations_in(path, results().budget, lambda: 7.0)
    assert [50, 80] == [event.step for event in written]
    earlier = {1: EarlierAttempt(moments=(), evaluations=(), unrecorded=tuple(written))}
    reader = results("auc")
    reader.earlier = earlier
    events = reader.read(json.dumps({"step": 60, "continues": 1}).encode())
    assert ["Continued", "Evaluated"] == [type(event).__name__ for event in events]
    assert [50] == reader.evaluations
