"""Exports for rliable and marl-eval and exported tables: their content, and what is refused."""

import io
import json
import pathlib
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from samples import completed, configuration, ended, evaluated, failed, started

from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.exchange.exporters.exported_runs import ExportedRun, select_common_seeds
from rlexp.exchange.exporters.marl_eval import as_marl_eval
from rlexp.exchange.exporters.rliable import as_json, as_npz, loading_line, score_dictionary
from rlexp.exchange.exporters.tables import make_sheet
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Event
from rlexp.records.run import RunRecord

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"


def outcome(label: str, task: str, seed: int, score: float | None) -> ExportedRun:
    """A run with a score, or a failed one."""
    spec = configuration(label, task=task).spec(Phase.TEST, 0, seed)
    record = failed(spec) if score is None else completed(spec, score)
    return ExportedRun(
        run=f"e/{spec.name}",
        label=label,
        task=task,
        state="completed" if score is not None else "failed (nan)",
        score=score,
        record=record,
    )


def outcomes(**scores: tuple[list[float | None], list[float | None]]) -> list[ExportedRun]:
    """Runs by label, from their scores on CartPole and on Pendulum."""
    return [
        outcome(label, task, seed, score)
        for label, task_scores in scores.items()
        for task, seed_scores in zip((CARTPOLE, PENDULUM), task_scores, strict=True)
        for seed, score in enumerate(seed_scores)
    ]


def test_rows_are_seeds_and_columns_tasks() -> None:
    """Arrays have a row for each seed, even if labels have different numbers of runs."""
    runs = outcomes(ppo=([1.0, 2.0], [3.0, 4.0]), a2c=([5.0], [6.0]))
    shape = select_common_seeds(runs, format_name="rliable", common=False)
    scores = score_dictionary(shape)
    assert (CARTPOLE, PENDULUM) == shape.tasks
    assert {"ppo": [[1.0, 3.0], [2.0, 4.0]], "a2c": [[5.0, 6.0]]} == {
        k: v.tolist() for k, v in scores.items()
    }


def test_a_missing_run_is_refused_and_never_filled() -> None:
    """The error names the difference and the option that keeps the common seeds only."""
    runs = outcomes(ppo=([1.0, 2.0, 3.0], [4.0, None, 6.0]))
    expected = "3 scores of ppo on CartPole-v1 and 2 scores of ppo on Pendulum-v1: --common-seeds"
    with pytest.raises(ProtocolError, match=expected):
        select_common_seeds(runs, format_name="rliable", common=False)
    shape = select_common_seeds(runs, format_name="rliable", common=True)
    assert [[1.0, 4.0], [3.0, 6.0]] == score_dictionary(shape)["ppo"].tolist()
    assert [2.0] == [o.score for o in shape.left_out]


def test_labels_need_the_same_tasks() -> None:
    """A label without a task is refused; no column is invented."""
    runs = [o for o in outcomes(ppo=([1.0], [2.0]), a2c=([3.0], [4.0])) if o.score != 4.0]
    with pytest.raises(ProtocolError, match="a2c was not run on Pendulum-v1"):
        select_common_seeds(runs, format_name="rliable", common=True)


def test_a_cell_without_any_score_is_refused() -> None:
    """A label without any score on a task is refused, even for common seeds."""
    runs = outcomes(ppo=([1.0], [None]))
    for common in (False, True):
        with pytest.raises(ProtocolError, match="ppo has no score on Pendulum-v1"):
            select_common_seeds(runs, format_name="rliable", common=common)


def test_labels_without_common_seeds_are_refused() -> None:
    """The error says that the tasks of a label have no seed in common."""
    runs = outcomes(ppo=([1.0, None], [None, 2.0]))
    with pytest.raises(ProtocolError, match="no seed in common"):
        select_common_seeds(runs, format_name="rliable", common=True)


def test_both_files_of_rliable_hold_the_same(tmp_path: Any) -> None:
    """The npz and JSON files are equal, and the printed line of Python loads either."""
    scores = score_dictionary(
        select_common_seeds(
            outcomes(ppo=([1.5, 2.0], [3.0, 4.0])), format_name="rliable", common=False
        )
    )
    names: dict[str, Any] = {"numpy": np, "json": json, "pathlib": pathlib}
    for name, content in (("s.npz", as_npz(scores)), ("s.json", as_json(scores))):
        path = tmp_path / name
        path.write_bytes(content)
        exec(loading_line(str(path)), names)
        loaded = names["scores"]
        assert ["ppo"] == list(loaded)
        np.testing.assert_array_equal([[1.5, 3.0], [2.0, 4.0]], loaded["ppo"])
    assert as_npz(scores) == as_npz(dict(scores))


@pytest.mark.parametrize("label", ["../x", "/etc/x", "a//b", "a/../b", ".", "a\\b", "a\nb", "\0"])
def test_a_label_cannot_leave_the_archive(label: str) -> None:
    """A label that cannot be a file name is refused for npz, and written to JSON."""
    scores = {label: np.zeros((1, 1))}
    with pytest.raises(ConfigError, match="json"):
        as_npz(scores)
    assert label == next(iter(json.loads(as_json(scores))))


def test_labels_of_several_experiments_name_arrays() -> None:
    """The label `old/ppo` becomes a file in a folder of the archive."""
    scores = {"old/ppo": np.zeros((1, 1)), "file": np.ones((1, 1))}
    with zipfile.ZipFile(io.BytesIO(as_npz(scores))) as archive:
        assert ["old/ppo.npy", "file.npy"] == archive.namelist()


def trained_run(label: str, seed: int, mean: float) -> ExportedRun:
    """A completed run with two evaluations."""
    spec = configuration(label).spec(Phase.TEST, 0, seed)
    events: list[Event] = [started(), evaluated(10, 1.0, 2.0), evaluated(20, 3.0, 4.0)]
    final = evaluated(100, mean - 1, mean + 1, final=True)
    record = RunRecord.fold(spec, [[*events, final, ended()]])
    return ExportedRun(
        run=f"e/{spec.name}",
        label=label,
        task=CARTPOLE,
        state="completed",
        score=record.score,
        record=record,
    )


def test_marl_eval_gets_every_evaluation_and_the_final_one_last() -> None:
    """The JSON has the levels of marl-eval, with a list of returns for each step."""
    runs = [trained_run("ppo", 0, 5.0), trained_run("ppo", 1, 6.0)]
    shape = select_common_seeds(runs, format_name="marl-eval", common=False, across_labels=True)
    document = json.loads(as_marl_eval(shape))
    by_seed = document["gymnasium"][CARTPOLE]["ppo"]
    assert ["seed_0", "seed_1"] == list(by_seed)
    assert ["step_1", "step_2", "absolute_metrics"] == list(by_seed["seed_0"])
    assert {"step_count": 20, "return": [3.0, 4.0], "length": [1.0, 1.0]} == by_seed["seed_1"][
        "step_2"
    ]
    assert [5.0, 7.0] == by_seed["seed_1"]["absolute_metrics"]["return"]


def test_marl_eval_needs_the_same_seeds_of_all_labels() -> None:
    """Labels with different seeds are refused."""
    runs = [trained_run("ppo", 0, 5.0), trained_run("ppo", 1, 6.0), trained_run("a2c", 0, 5.0)]
    with pytest.raises(ProtocolError, match="marl-eval needs the same seeds"):
        select_common_seeds(runs, format_name="marl-eval", common=False, across_labels=True)
    shape = select_common_seeds(runs, format_name="marl-eval", common=True, across_labels=True)
    assert {"ppo": (0,), "a2c": (0,)} == shape.seeds


def test_marl_eval_refuses_non_finite_returns() -> None:
    """A return of NaN or infinity is refused, as JSON lacks them."""
    spec = configuration().spec(Phase.TEST, 0, 0)
    final = evaluated(100, 1.0, final=True)
    events: list[Event] = [started(), evaluated(10, float("nan")), final, ended()]
    record = RunRecord.fold(spec, [events])
    run = ExportedRun(
        run="e/r", label="ppo", task=CARTPOLE, state="completed", score=1.0, record=record
    )
    shape = select_common_seeds([run], format_name="marl-eval", common=False)
    with pytest.raises(RecordError, match="run e/r has a return at step 10"):
        as_marl_eval(shape)


def test_lengths_are_given_where_every_run_has_them() -> None:
    """If one run lacks lengths, no run has them, because marl-eval needs equal metrics."""
    first, second = trained_run("ppo", 0, 5.0), trained_run("ppo", 1, 6.0)
    events: list[Event] = [started(), replace(evaluated(10, 1.0), lengths=()), ended()]
    record = RunRecord.fold(second.record.spec, [events])
    runs = [first, replace(second, record=record)]
    shape = select_common_seeds(runs, format_name="marl-eval", common=False)
    by_seed = json.loads(as_marl_eval(shape))["gymnasium"][CARTPOLE]["ppo"]
    assert {"step_count": 10, "return": [1.0, 2.0]} == by_seed["seed_0"]["step_1"]
    assert {"return": [1.0]} == by_seed["seed_1"]["absolute_metrics"]


def test_tables_have_a_row_for_each_run_evaluation_or_episode() -> None:
    """A failed run is in the table of runs, with its state and without a score."""
    runs = [trained_run("ppo", 0, 5.0), outcome("a2c", CARTPOLE, 1, None)]
    scores, curves, episodes = (make_sheet(k, runs) for k in ("runs", "evaluations", "episodes"))
    assert [("ppo", 5.0), ("a2c", None)] == [(row[0], row[5]) for row in scores.rows]
    assert "failed (nan)" == scores.rows[1][4]
    assert ["label", "task", "seed", "step", "return"] == curves.titles[:5]
    assert [(10, 1.5), (20, 3.5), (100, 5.0)] == [row[3:5] for row in curves.rows]
    assert [False, False, True] == [row[curves.titles.index("final")] for row in curves.rows]
    assert 6 == len(episodes.rows)
    assert {"test"} == {row[curves.titles.index("phase")] for row in curves.rows}
