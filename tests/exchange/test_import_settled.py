"""The plan of an import: seeds, budgets, curves and scores."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from import_sources import settled, with_seed

from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.imported_study import (
    EarlyEnd,
    EvaluationPoint,
    ImportedRun,
    ReturnKind,
)
from rlexp.exchange.importers.plan import ImportPlan
from rlexp.records.events import Ending, Failure


def run(*steps: int, seed: int | None = 0, **changes: Any) -> ImportedRun:
    """A run whose return at each step is a hundredth of the step."""
    imported_run = ImportedRun(
        name=f"run-{seed}",
        label="ppo",
        task="Toy-v0",
        seed=seed,
        points=tuple(EvaluationPoint(step=step, returns=(step / 100,)) for step in steps),
        returns=ReturnKind.EVALUATIONS,
        files=(("a.csv", "0" * 64),),
    )
    return replace(imported_run, **changes)


def training(*steps: int, **changes: Any) -> ImportedRun:
    """A run like `run` whose returns are those of training episodes."""
    return run(*steps, returns=ReturnKind.TRAINING, **changes)


def test_the_budget_is_what_was_reached() -> None:
    """The longest run of a task sets the budget."""
    plan = settled(run(50, 100), run(50, 98, seed=1))
    assert {100} == {r.configuration.budget.steps for r in plan.runs}
    assert [None, None] == [r.trouble for r in plan.runs]


def test_a_short_run_has_no_score() -> None:
    """A run is interrupted if its next evaluation would still lie within the budget."""
    short, almost_complete = run(10, 20, 30, seed=1), run(40, 80, seed=2)
    plan = settled(run(50, 100), short, almost_complete)
    reasons = {r.spec.seed: r.trouble.reason if r.trouble else None for r in plan.runs}
    assert {0: None, 1: "its records end at step 30 of 100", 2: None} == reasons


def test_a_budget_from_the_options() -> None:
    """Points after the budget of the option --steps are left out."""
    plan = settled(run(50, 100, 150, 200), run(50, 100, seed=1), steps=100)
    first, second = plan.runs
    assert ([50, 100], 2, None) == ([p.step for p in first.points], first.cut, first.trouble)
    assert (0, None) == (second.cut, second.trouble)


def test_a_failure_beyond_the_budget() -> None:
    """A failure after the end of the budget is ignored."""
    failure = EarlyEnd(step=150, ending=Ending.FAILED, reason="nan", failure=Failure.NAN)
    [planned_run] = settled(run(50, 100, 140, trouble=failure), steps=100).runs
    assert planned_run.trouble is None
    [planned_run] = settled(run(50, 100, trouble=failure), steps=150).runs
    assert (failure, 150) == (planned_run.trouble, planned_run.step)


def test_the_score_is_never_the_best() -> None:
    """The default score is the end of training, or final episodes if they are marked."""
    final = EvaluationPoint(step=100, returns=(5.0, 7.0), final=True)
    assert "last_window" == settled(run(50, 100)).runs[0].configuration.budget.score
    with_final = run(50, 100, points=(*run(50, 100).points, final))
    [planned_run] = settled(with_final).runs
    assert ("final", 2) == (
        planned_run.configuration.budget.score,
        planned_run.configuration.budget.final_episodes,
    )
    assert [False, False, True] == [p.final for p in planned_run.points]
    [planned_run] = settled(with_final, score="auc").runs
    assert [False, False] == [p.final for p in planned_run.points]


def test_a_run_that_failed_does_not_choose_the_score() -> None:
    """Final evaluations stay the score if a run without one failed or ended early."""
    final = EvaluationPoint(step=100, returns=(5.0,), final=True)
    failure = EarlyEnd(step=100, ending=Ending.FAILED, reason="nan", failure=Failure.NAN)
    good = run(points=(*run(50, 100).points, final))
    failed, short = run(50, seed=1, trouble=failure), run(10, 20, seed=2)
    plan = settled(good, failed, short)
    assert {"final"} == {r.configuration.budget.score for r in plan.runs}
    endings = [r.trouble.ending if r.trouble else None for r in plan.runs]
    assert [None, Ending.FAILED, Ending.INTERRUPTED] == endings
    complete_without_mark = run(50, 100, seed=3)
    [first, *_] = settled(good, failed, complete_without_mark).runs
    assert "last_window" == first.configuration.budget.score


def test_final_by_request() -> None:
    """With --score final, the last evaluation is also the final one."""
    [planned_run] = settled(run(50, 100), score="final").runs
    assert [(50, False), (100, False), (100, True)] == [
        (p.step, p.final) for p in planned_run.points
    ]
    with pytest.raises(ConfigError, match="are training episodes: use last_window or auc"):
        settled(training(50, 100), score="final")


@over(
    st.lists(st.integers(1, 40), min_size=1, max_size=400),
    st.integers(1, 3),
)
def test_bins_hold_every_episode(lengths: list[int], episodes: int) -> None:
    """Every episode is in one bin, which does not end before the episode."""
    steps = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    points = tuple(
        EvaluationPoint(
            step=step, returns=tuple(float(step) for _ in range(episodes)), lengths=(1,) * episodes
        )
        for step in steps
    )
    [planned_run] = settled(training(points=points)).runs
    binned = [(p.step, value) for p in planned_run.points for value in p.returns]
    assert sorted(float(s) for s in steps for _ in range(episodes)) == [v for _, v in binned]
    width = steps[-1] / 100
    assert all(value <= step < value + width + 1 for step, value in binned)
    ends = [p.step for p in planned_run.points]
    assert ends == sorted(set(ends))
    assert len(ends) <= 100
    assert ends[-1] == steps[-1]
    assert all(len(p.lengths) == len(p.returns) for p in planned_run.points)


def test_very_many_evaluations() -> None:
    """A run with more evaluations than a report can hold is binned."""
    plan = settled(run(*range(1, 5001)), run(*range(10, 5001, 10), seed=1))
    assert [100, 100] == [len(r.points) for r in plan.runs]
    assert plan.runs[0].configuration.algorithm["imported"]["binned"]


def test_final_episodes_behind_very_many_evaluations() -> None:
    """Final evaluations are not binned; a run of training episodes has none."""
    final = EvaluationPoint(step=3000, returns=(7.0,), final=True)
    long_run = run(*range(1, 3001))
    [planned_run] = settled(replace(long_run, points=(*long_run.points, final))).runs
    assert (101, final) == (len(planned_run.points), planned_run.points[-1])
    training_run = replace(long_run, points=(*long_run.points, final), returns=ReturnKind.TRAINING)
    [planned_run] = settled(training_run).runs
    assert (100, "last_window") == (
        len(planned_run.points),
        planned_run.configuration.budget.score,
    )


def test_steps_that_fall_together() -> None:
    """Frames of one environment step are episodes of one evaluation."""
    points = (EvaluationPoint(step=5, returns=(1.0,)), EvaluationPoint(step=5, returns=(2.0,)))
    [planned_run] = settled(run(points=points)).runs
    assert [(5, (1.0, 2.0))] == [(p.step, p.returns) for p in planned_run.points]


def test_known_seeds() -> None:
    """Seeds of the source are kept, however large they are."""
    plan = settled(run(100, seed=3), run(100, seed=4_000_000_000))
    assert [3, 4_000_000_000] == [r.spec.seed for r in plan.runs]
    assert not any(r.numbered for r in plan.runs)
    with pytest.raises(ConfigError, match="all of these runs have one"):
        settled(run(100, seed=3), run(100, seed=4), seed=1)


def test_missing_seeds() -> None:
    """Missing seeds are numbered for each label and task, from the number of --seed."""
    other_label = run(100, seed=None, label="a2c")
    plan = settled(run(100, seed=None), run(100, seed=None, name="b"), other_label, seed=5)
    assert [("ppo", 5), ("ppo", 6), ("a2c", 5)] == [
        (r.source.label, r.spec.seed) for r in plan.runs
    ]
    with pytest.raises(ConfigError, match="has no seed, and other runs"):
        settled(run(100, seed=None), run(100, seed=1))


def test_one_seed_is_overridden() -> None:
    """The option --seed replaces the seed of a single run."""
    assert 9 == settled(run(100, seed=3), seed=9).runs[0].spec.seed


def test_repeated_seeds() -> None:
    """Two runs with one seed are refused with both names."""
    with pytest.raises(ProtocolError, match="run-1 and again would both be seed 1 of ppo"):
        settled(run(100, seed=1), run(100, seed=1, name="again"))


def test_returns_of_different_kinds() -> None:
    """Evaluations and training episodes on one task are refused."""
    with pytest.raises(ProtocolError, match="of different kinds"):
        settled(run(100), training(100, seed=1, label="a2c"))


def test_nothing_to_import() -> None:
    """No runs, and runs without returns, are refused."""
    with pytest.raises(ConfigError, match="contain no run"):
        settled()
    with pytest.raises(ConfigError, match="no run on Toy-v0 has a return"):
        settled(run())


def test_an_imported_run_is_marked() -> None:
    """The specification marks the run as imported, and labels may have different seeds."""
    plan = settled(run(100, seed=1), run(100, seed=2, label="a2c"))
    for planned_run in plan.runs:
        assert {
            "kind": "csv",
            "returns": "evaluations",
            "binned": False,
        } == planned_run.spec.imported
        assert "_target_" not in planned_run.spec.algorithm
    names = [spec.name for _, spec in plan.experiment.specs(planned_run.spec.phase)]
    assert {r.spec.name for r in plan.runs} == set(names)
    assert 2 == len(names)
    assert names[0].startswith("ppo-test-1-")


def test_names_of_folders_are_harmless() -> None:
    """The name of the run's folder is short and safe for any label."""
    [planned_run] = settled(run(100, label="../ü ß/" + "漢" * 100)).runs
    assert planned_run.spec.name.isascii()
    assert len(planned_run.spec.name) < 200
    assert "/" not in planned_run.spec.name
    assert ".." not in planned_run.spec.name


def extended(first: ImportPlan, *runs: ImportedRun, **options: Any) -> ImportPlan:
    """The plan that adds further runs to the experiment of an earlier plan."""
    return settled(*runs, there=first.experiment, **options)


def test_further_seeds() -> None:
    """Earlier runs keep their identity, and new seeds get the same budget."""
    first = settled(run(50, 100), run(50, 100, label="a2c"))
    plan = extended(first, run(50, 102, seed=1))
    assert [100] == [r.configuration.budget.steps for r in plan.runs]
    before, after = first.experiment.imported, plan.experiment.imported
    assert before is not None
    assert after is not None
    fingerprint = plan.runs[0].configuration.fingerprint
    assert {**before, fingerprint: (0, 1)} == after
    assert (0, 1) == plan.experiment.seeds.test


def test_further_labels() -> None:
    """A new label on the same task gets the same budget."""
    plan = extended(settled(run(50, 100)), run(20, 40, 60, 80, 100, label="a2c"))
    assert {("ppo", 100), ("a2c", 100)} == {
        (c.label, c.budget.steps) for c in plan.experiment.configurations
    }
    assert 1 == len({str(c.budget) for c in plan.experiment.configurations})


def test_runs_that_do_not_fit_the_experiment() -> None:
    """Longer runs, another score and other returns are refused with advice."""
    first = settled(run(50, 100))
    with pytest.raises(ProtocolError, match="cut them with --steps 100"):
        extended(first, run(50, 200, seed=1))
    assert 1 == extended(first, run(50, 100, 200, seed=1), steps=100).runs[0].cut
    with pytest.raises(ProtocolError, match=r"--steps 200.*have 100"):
        extended(first, run(50, 200, seed=1), steps=200)
    with pytest.raises(ProtocolError, match=r"--score auc.*have last_window"):
        extended(first, run(50, 100, seed=1), score="auc")
    with pytest.raises(ProtocolError, match="of different kinds"):
        extended(first, training(50, 100, seed=1))
    with pytest.raises(ProtocolError, match="of kind csv, and these are of kind mlflow"):
        extended(first, run(50, 100, seed=1), kind="mlflow")
    tuned = settled(run(50, 100, settings={"rate": 1}))
    with pytest.raises(ProtocolError, match="rate 1 and 2"):
        extended(tuned, run(50, 100, seed=1, settings={"rate": 2}))


def test_content_tells_runs_apart() -> None:
    """The digest depends on the content of a run, and not on its files."""
    [first] = settled(run(50, 100)).runs
    [again] = settled(run(50, 100, files=(("b.csv", "1" * 64),), started=5.0)).runs
    assert first.content == again.content
    others = [run(50, 101), run(50, 100, 150), with_seed(run(50, 100), 1), run(50, 100, task="x")]
    assert 5 == len({first.content, *(settled(o).runs[0].content for o in others)})
