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


def run(*steps: int, seed: int | None = 0, **changed: Any) -> ImportedRun:
    """A run whose return at each step is a hundredth of it."""
    made = ImportedRun(
        name=f"run-{seed}",
        label="ppo",
        task="Toy-v0",
        seed=seed,
        points=tuple(EvaluationPoint(step=step, returns=(step / 100,)) for step in steps),
        returns=ReturnKind.EVALUATIONS,
        files=(("a.csv", "0" * 64),),
    )
    return replace(made, **changed)


def training(*steps: int, **changed: Any) -> ImportedRun:
    """The same of training episodes."""
    return run(*steps, returns=ReturnKind.TRAINING, **changed)


def test_the_budget_is_what_was_reached() -> None:
    """The longest run of a task sets the budget."""
    found = settled(run(50, 100), run(50, 98, seed=1))
    assert {100} == {r.configuration.budget.steps for r in found.runs}
    assert [None, None] == [r.trouble for r in found.runs]


def test_a_short_run_has_no_score() -> None:
    """A short run is interrupted, unless its next point would be after the budget."""
    short, near = run(10, 20, 30, seed=1), run(40, 80, seed=2)
    found = settled(run(50, 100), short, near)
    reasons = {r.spec.seed: r.trouble.reason if r.trouble else None for r in found.runs}
    assert {0: None, 1: "its records end at step 30 of 100", 2: None} == reasons


def test_a_budget_that_is_given() -> None:
    """Points after a given budget are left out, and shorter runs are interrupted."""
    found = settled(run(50, 100, 150, 200), run(50, 100, seed=1), steps=100)
    first, second = found.runs
    assert ([50, 100], 2, None) == ([p.step for p in first.points], first.cut, first.trouble)
    assert (0, None) == (second.cut, second.trouble)


def test_a_failure_beyond_the_budget() -> None:
    """A failure after the budget is ignored."""
    broken = EarlyEnd(step=150, ending=Ending.FAILED, reason="nan", failure=Failure.NAN)
    [found] = settled(run(50, 100, 140, trouble=broken), steps=100).runs
    assert found.trouble is None
    [found] = settled(run(50, 100, trouble=broken), steps=150).runs
    assert (broken, 150) == (found.trouble, found.step)


def test_the_score_is_never_the_best() -> None:
    """The default score is the end of training, or final episodes if marked."""
    final = EvaluationPoint(step=100, returns=(5.0, 7.0), final=True)
    assert "last_window" == settled(run(50, 100)).runs[0].configuration.budget.score
    marked = run(50, 100, points=(*run(50, 100).points, final))
    [found] = settled(marked).runs
    assert ("final", 2) == (
        found.configuration.budget.score,
        found.configuration.budget.final_episodes,
    )
    assert [False, False, True] == [p.final for p in found.points]
    [found] = settled(marked, score="auc").runs
    assert [False, False] == [p.final for p in found.points]


def test_final_by_request() -> None:
    """With --score final the last evaluation is the final one."""
    [found] = settled(run(50, 100), score="final").runs
    assert [(50, False), (100, False), (100, True)] == [(p.step, p.final) for p in found.points]
    with pytest.raises(ConfigError, match="are training episodes: use last_window or auc"):
        settled(training(50, 100), score="final")


@over(
    st.lists(st.integers(1, 40), min_size=1, max_size=400),
    st.integers(1, 3),
)
def test_bins_hold_every_episode(lengths: list[int], several: int) -> None:
    """Every episode is in one bin, which does not end before the episode."""
    steps = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    points = tuple(
        EvaluationPoint(
            step=step, returns=tuple(float(step) for _ in range(several)), lengths=(1,) * several
        )
        for step in steps
    )
    [found] = settled(training(points=points)).runs
    told = [(p.step, value) for p in found.points for value in p.returns]
    assert sorted(float(s) for s in steps for _ in range(several)) == [v for _, v in told]
    width = steps[-1] / 100
    assert all(value <= step < value + width + 1 for step, value in told)
    ends = [p.step for p in found.points]
    assert ends == sorted(set(ends))
    assert len(ends) <= 100
    assert ends[-1] == steps[-1]
    assert all(len(p.lengths) == len(p.returns) for p in found.points)


def test_very_many_evaluations() -> None:
    """More evaluations than a report can hold are binned."""
    found = settled(run(*range(1, 5001)), run(*range(10, 5001, 10), seed=1))
    assert [100, 100] == [len(r.points) for r in found.runs]
    assert found.runs[0].configuration.algorithm["imported"]["binned"]


def test_final_episodes_behind_very_many_evaluations() -> None:
    """Final episodes are not binned."""
    final = EvaluationPoint(step=3000, returns=(7.0,), final=True)
    long = run(*range(1, 3001))
    [found] = settled(replace(long, points=(*long.points, final))).runs
    assert (101, final) == (len(found.points), found.points[-1])
    trained = replace(long, points=(*long.points, final), returns=ReturnKind.TRAINING)
    [found] = settled(trained).runs
    assert (100, "last_window") == (len(found.points), found.configuration.budget.score)


def test_steps_that_fall_together() -> None:
    """Frames of one environment step are episodes of one evaluation."""
    points = (EvaluationPoint(step=5, returns=(1.0,)), EvaluationPoint(step=5, returns=(2.0,)))
    [found] = settled(run(points=points)).runs
    assert [(5, (1.0, 2.0))] == [(p.step, p.returns) for p in found.points]


def test_seeds_that_are_known() -> None:
    """Seeds of the source are kept, however large."""
    found = settled(run(100, seed=3), run(100, seed=4_000_000_000))
    assert [3, 4_000_000_000] == [r.spec.seed for r in found.runs]
    assert not any(r.numbered for r in found.runs)
    with pytest.raises(ConfigError, match="all of these runs have one"):
        settled(run(100, seed=3), run(100, seed=4), seed=1)


def test_seeds_that_are_not_known() -> None:
    """Missing seeds are numbered for each label and task, from a given number."""
    other = run(100, seed=None, label="a2c")
    found = settled(run(100, seed=None), run(100, seed=None, name="b"), other, seed=5)
    assert [("ppo", 5), ("ppo", 6), ("a2c", 5)] == [
        (r.source.label, r.spec.seed) for r in found.runs
    ]
    with pytest.raises(ConfigError, match="has no seed, and other runs"):
        settled(run(100, seed=None), run(100, seed=1))


def test_one_seed_is_overridden() -> None:
    """The option --seed replaces the seed of a single run."""
    assert 9 == settled(run(100, seed=3), seed=9).runs[0].spec.seed


def test_seeds_twice() -> None:
    """Two runs with one seed are refused with both names."""
    with pytest.raises(ProtocolError, match="run-1 and again would both be seed 1 of ppo"):
        settled(run(100, seed=1), run(100, seed=1, name="again"))


def test_returns_that_are_not_alike() -> None:
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
    """The specification marks the run as imported, and needs no seeds of other labels."""
    found = settled(run(100, seed=1), run(100, seed=2, label="a2c"))
    for one in found.runs:
        assert {"kind": "csv", "returns": "evaluations", "binned": False} == one.spec.imported
        assert "_target_" not in one.spec.algorithm
    asked = [spec.name for _, spec in found.experiment.specs(one.spec.phase)]
    assert {r.spec.name for r in found.runs} == set(asked)
    assert 2 == len(asked)
    assert asked[0].startswith("ppo-test-1-")


def test_names_of_folders_are_harmless() -> None:
    """The folder's name is short and safe for any label."""
    [found] = settled(run(100, label="../ü ß/" + "漢" * 100)).runs
    assert found.spec.name.isascii()
    assert len(found.spec.name) < 200
    assert "/" not in found.spec.name
    assert ".." not in found.spec.name


def grown(first: ImportPlan, *runs: ImportedRun, **asked: Any) -> ImportPlan:
    """Further runs of an experiment."""
    return settled(*runs, there=first.experiment, **asked)


def test_further_seeds() -> None:
    """Earlier runs keep their identity, and new seeds get the same budget."""
    first = settled(run(50, 100), run(50, 100, label="a2c"))
    found = grown(first, run(50, 102, seed=1))
    assert [100] == [r.configuration.budget.steps for r in found.runs]
    before, after = first.experiment.imported, found.experiment.imported
    assert before is not None
    assert after is not None
    own = found.runs[0].configuration.fingerprint
    assert {**before, own: (0, 1)} == after
    assert (0, 1) == found.experiment.seeds.test


def test_further_labels() -> None:
    """A new label on the same task gets the same budget."""
    found = grown(settled(run(50, 100)), run(20, 40, 60, 80, 100, label="a2c"))
    assert {("ppo", 100), ("a2c", 100)} == {
        (c.label, c.budget.steps) for c in found.experiment.configurations
    }
    assert 1 == len({str(c.budget) for c in found.experiment.configurations})


def test_what_does_not_fit_what_is_there() -> None:
    """Longer runs, another score and other returns are refused with advice."""
    first = settled(run(50, 100))
    with pytest.raises(ProtocolError, match="cut them with --steps 100"):
        grown(first, run(50, 200, seed=1))
    assert 1 == grown(first, run(50, 100, 200, seed=1), steps=100).runs[0].cut
    with pytest.raises(ProtocolError, match=r"--steps 200.*have 100"):
        grown(first, run(50, 200, seed=1), steps=200)
    with pytest.raises(ProtocolError, match=r"--score auc.*have last_window"):
        grown(first, run(50, 100, seed=1), score="auc")
    with pytest.raises(ProtocolError, match="of different kinds"):
        grown(first, training(50, 100, seed=1))
    with pytest.raises(ProtocolError, match="of kind csv, and these are of kind mlflow"):
        grown(first, run(50, 100, seed=1), kind="mlflow")
    tuned = settled(run(50, 100, settings={"rate": 1}))
    with pytest.raises(ProtocolError, match="rate 1 and 2"):
        grown(tuned, run(50, 100, seed=1, settings={"rate": 2}))


def test_content_tells_runs_apart() -> None:
    """The digest depends on the numbers, and not on the files."""
    [first] = settled(run(50, 100)).runs
    [again] = settled(run(50, 100, files=(("b.csv", "1" * 64),), started=5.0)).runs
    assert first.content == again.content
    others = [run(50, 101), run(50, 100, 150), with_seed(run(50, 100), 1), run(50, 100, task="x")]
    assert 5 == len({first.content, *(settled(o).runs[0].content for o in others)})
