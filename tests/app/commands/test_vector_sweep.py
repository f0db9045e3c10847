"""A sweep over the weights of a vector reward gives a set of policies with its hypervolume and utility."""

from math import fsum
from pathlib import Path

import pytest
from command_line import give, give_json, typed
from last_words import last_words
from quick_parts import quick_parts
from vector_environment import TRADE, WEIGHTS, open_trade

from rlexp.app.sweeps import request
from rlexp.stats.pareto import even_weights, hypervolume

quick = pytest.fixture(autouse=True)(quick_parts)
SWEEP = (
    *("tuner=grid", WEIGHTS, "sweep.objective=[return/gain,return/saving]"),
    *("sweep.allocation=fixed", "seeds.tuning=1", "seeds.selection=1", "seeds.test=2"),
    *("sweep.reference_point={return/gain: -1, return/saving: -5}", "experiment=trade"),
)


def test_a_sweep_over_weights_gives_the_set_of_policies(tmp_path: Path) -> None:
    """Weights lead to trading always or never; the set serves every weights, a single policy half of them."""
    folder = open_trade(tmp_path)
    give(folder, "sweep", *TRADE, *SWEEP)
    front = give_json(folder, "best", "best", "trade")["front"]
    tested = [row for row in front["policies"] if row["phase"] == "test" and row["on_front"]]
    points = sorted(tuple(mean["estimate"] for mean in row["means"].values()) for row in tested)
    # Trading in all four steps gains 4 and saves −4; never trading gives 0 and 0.
    assert [(0.0, 0.0), (4.0, -4.0)] == points
    assert {"return/gain": -1.0, "return/saving": -5.0} == front["reference"]
    (volume,) = [v for v in front["hypervolumes"] if v["phase"] == "test"]
    assert hypervolume(points, (-1.0, -5.0)) == volume["of_means"] == volume["by_seed"]["estimate"]
    (utility,) = [u for u in front["utilities"] if u["phase"] == "test"]
    weights = even_weights(2)
    expected = fsum(max(0.0, 4 * gain - 4 * saving) for gain, saving in weights) / len(weights)
    assert (len(weights), 2) == (utility["weights"], utility["of_set"]["n"])
    assert pytest.approx(expected) == utility["of_set"]["estimate"]
    assert pytest.approx(0.0) == utility["of_best"]["estimate"]
    # Trials with other weights are one task, scored by the first objective.
    details = give_json(folder, "experiment-details", "show", "trade")
    assert {"Trade-v0"} == {cell["task"] for cell in details["phases"][0]["cells"]}
    assert "runs differ in environment.weights" not in give(folder, "report", "trade")


def test_objectives_that_depend_on_the_weights_are_refused(tmp_path: Path) -> None:
    """The error names the returns of the objectives; nothing is trained."""
    folder = open_trade(tmp_path)
    without = [word for word in SWEEP if not word.startswith("sweep.reference_point")]
    for objective in ("score", "[score,return/gain]", "return/gain"):
        answer = typed(
            folder, "sweep", *TRADE, *last_words(*without, f"sweep.objective={objective}")
        )
        assert 2 == answer.code
        assert "'sweep.objective=[return/gain,return/saving]'" in answer.err
        assert 1 == len(answer.err.strip().splitlines())
    answer = typed(folder, "sweep", *TRADE, *SWEEP, "budget.score=final")
    assert (2, True) == (answer.code, "budget.score=final depends on the weights" in answer.err)
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("objective", ["score", "[return/gain,return/saving]"])
def test_an_older_sweep_over_weights_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objective: str
) -> None:
    """A sweep that began before the task got one name goes on by the same command, with its own score."""
    folder = open_trade(tmp_path)
    words = (
        *(
            *TRADE,
            WEIGHTS,
            f"sweep.objective={objective}",
            "tuner=random",
            "sweep.allocation=fixed",
        ),
        *("seeds.tuning=1", "seeds.selection=0", "sweep.trials=2", "experiment=old"),
    )
    with monkeypatch.context() as older:
        older.setattr(request, "words_for_weights", lambda *_: [])
        give(folder, "sweep", *words, "seeds.test=1")
    # The test seeds may grow, and everything else is the same.
    text = give(folder, "sweep", *words, "seeds.test=2", "--dry-run")
    assert "already done" in text
    assert "another definition" not in text
    # Another name is a new sweep, which this objective does not fit.
    answer = typed(folder, "sweep", *last_words(*words, "experiment=new"), "--dry-run")
    assert (2 if objective == "score" else 0) == answer.code


def test_an_objective_that_the_task_does_not_report_is_refused(tmp_path: Path) -> None:
    """An episode shows what the task reports, and the error names it."""
    folder = open_trade(tmp_path)
    objective = "sweep.objective=[return/gain,return/luck]"
    luck = "environment.measures={return/luck: {direction: maximise}}"
    words = [w for w in SWEEP if not w.startswith("sweep.reference_point")]
    answer = typed(folder, "sweep", *TRADE, *last_words(*words, objective), luck)
    assert 2 == answer.code
    assert "sweep.objective=return/luck: an episode of Trade-v0 reports the measures" in answer.err


# MO-Gymnasium declares rewards as rounded 32-bit numbers.
@pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")
def test_a_sweep_over_weights_dives_for_treasure(tmp_path: Path) -> None:
    """A task of MO-Gymnasium is swept over its weights; `make test-suites` installs it."""
    pytest.importorskip("mo_gymnasium", reason="needs rlexp[multi-objective]")
    words = (
        *("environment=deep_sea_treasure", "algorithm=ppo", "algorithm.n_steps=64", "tuner=grid"),
        *("budget.steps=128", "budget.evaluation_every=null", "budget.final_episodes=2"),
        *("environment.weights=[1,0],[0,1]", "sweep.objective=[return/treasure,return/time]"),
        *("sweep.allocation=fixed", "sweep.choose=knee", "seeds.tuning=1", "seeds.selection=1"),
        *("seeds.test=2", "executor.workers=1", "experiment=dive"),
    )
    give(tmp_path, "sweep", *words)
    front = give_json(tmp_path, "best", "best", "dive")["front"]
    tested = [row for row in front["policies"] if row["phase"] == "test" and row["on_front"]]
    assert tested
    assert all(row["runs"] == 2 and row["means"]["return/time"]["estimate"] < 0 for row in tested)
    assert {"tuning", "selection", "test"} == {u["phase"] for u in front["utilities"]}
    assert min(v["of_means"] for v in front["hypervolumes"]) > 0
