"""Sweeps with settings that cannot work: each is refused in one line before training."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import write_tree
from sweeping import DEFINITION, refusal

from rlexp.config.sweep import compose_sweep
from rlexp.config.sweep_checks import check_sweep

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a definition of its own."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        # settings that are the same for every trial
        (["seeds.tuning=1,2"], "seeds.tuning must be the same for every trial: write one value"),
        (["tuner=tpe,random"], "tuner must be the same for every trial: write one value"),
        (["sweep.trials=1,2"], "sweep.trials must be the same for every trial: write one value"),
        (["budget.steps=1,2"], "budget.steps must be the same for every trial: write one value"),
        (
            ["environment=acrobot,cartpole"],
            "takes one value; for one configuration for several tasks, write",
        ),
        (
            ["environment.id=A-v0,B-v0"],
            "takes one value; for one configuration for several tasks, write",
        ),
        (
            ["environment.reference.threshold=1,2"],
            "takes one value; for one configuration for several tasks, write",
        ),
        (["sweep.space.executor.workers=[1,2]"], "sweep.space.executor.workers: executor.workers"),
        # settings
        (["sweep.trials=0"], "sweep.trials=0: must be greater than or equal to 1"),
        (["sweep.full_runs=0"], "sweep.full_runs=0: must be greater than 0"),
        (["sweep.hours=-1"], "sweep.hours=-1: must be greater than 0"),
        (["sweep.promoted=1.5"], "sweep.promoted=1.5: must be less than or equal to 1"),
        (["sweep.lag=-1"], "sweep.lag=-1: must be greater than or equal to 0"),
        (["sweep.allocation=all"], "must be 'two_stage', 'fixed' or 'racing'"),
        (["sweep.objective=return"], "sweep.objective='return' must be score, final, auc"),
        (["sweep.objective=[]"], "sweep.objective must name one thing, or several different ones"),
        (["sweep.objective=[auc,auc]"], "sweep.objective must name one thing, or several"),
        (["sweep.trails=3"], "unknown key 'sweep.trails'; did you mean 'sweep.trials=3'?"),
        (
            ["+sweep.trails=3"],
            "unknown key 'sweep.trails'; did you mean 'trials'? (there are: trials",
        ),
        (
            ["budget.stop_at=100"],
            "leave it out; 'sweep.objective=[score,steps_to_threshold]' prefers",
        ),
        (["tuner=tpee"], "there is no tuner=tpee; did you mean 'tpe'? (there are: "),
        (["pruner=nun"], "there is no pruner=nun (there are: hyperband, "),
        (["~tuner"], "a sweep needs a tuner: choose one with tuner=…"),
        (["phase=tuning"], "a sweep runs all phases; remove phase from the command"),
        (["+sweeps=quick"], "the definition is the first argument: write rlexp sweep quick …"),
        (["metric=iqm"], "metric belongs to reports, not to runs"),
        (["+nothing=1"], "there is no group 'nothing'"),
        (["algorithm.nothing=1"], "unknown key 'algorithm.nothing'"),
        (["sweep.trials=["], "cannot read 'sweep.trials=['"),
        # objectives
        (
            ["sweep.objective=auc", "budget.evaluation_every=null"],
            (
                "sweep.objective=auc needs evaluations during training, and no run has any: set "
                "budget.evaluation_every to budget.steps=2000 or less"
            ),
        ),
        (
            ["sweep.objective=last_window", "budget.evaluation_every=2001"],
            "sweep.objective=last_window needs evaluations during training, and no run has any",
        ),
        (
            ["sweep.objective=steps_to_threshold", "environment.reference.threshold=null"],
            (
                "sweep.objective=steps_to_threshold needs the return at which the task is solved: set "
                "environment.reference.threshold"
            ),
        ),
        (
            ["sweep.objective=[score,steps_to_threshold]", "budget.evaluation_every=null"],
            "sweep.objective=steps_to_threshold needs evaluations during training",
        ),
        (
            ["sweep.objective=spread", "sweep.allocation=fixed", "seeds.tuning=1"],
            "sweep.objective=spread is a standard deviation over tuning seeds, and needs two",
        ),
        (
            ["sweep.objective=[score,spread]"],
            "sweep.allocation=two_stage runs each trial on one seed first: set sweep.allocation=fixed",
        ),
        # fronts of several objectives
        (
            ["sweep.choose=knee"],
            "sweep.choose is for a front of several objectives, and sweep.objective names only score",
        ),
        (
            ["sweep.reference_point={score: 0}"],
            "sweep.reference_point is for a front of several objectives",
        ),
        (
            ["sweep.objective=[score,auc]", "sweep.choose=elbow"],
            "sweep.choose=elbow is no rule of a choice: write first, knee, {weights",
        ),
        (
            ["sweep.objective=[score,auc]", "sweep.choose={weights: {score: 1}}"],
            "sweep.choose.weights has no number for auc: give one for each objective",
        ),
        (
            ["sweep.objective=[score,auc]", "sweep.choose={constraint: {cost: 1}}"],
            "sweep.choose.constraint names cost, which sweep.objective does not",
        ),
        (
            ["sweep.objective=[score,auc]", "sweep.reference_point={score: 0}"],
            "sweep.reference_point has no number for auc",
        ),
        (
            ["sweep.objective=[score,auc]", "sweep.utility_weights=[[1]]"],
            "must be 2 weights, one for each of sweep.objective",
        ),
        # budgets
        (
            ["sweep.steps=9999"],
            "sweep.steps=9999 is less than one trial (budget.steps=2000 × 5 seeds = 10000): raise sweep.steps",
        ),
        (
            ["sweep.steps=9999", "sweep.allocation=fixed"],
            "sweep.steps=9999 is less than one trial (budget.steps=2000 × 5 seeds = 10000)",
        ),
        (["sweep.full_runs=0.5"], "sweep.full_runs=0.5 is less than one trial at the full budget"),
        # episodes of screening runs
        (
            ["sweep.screening_episodes=0"],
            "sweep.screening_episodes=0: must be greater than or equal to 1",
        ),
        (
            ["sweep.screening_episodes=7", "budget.final_episodes=7"],
            (
                "sweep.screening_episodes=7 is not less than budget.final_episodes=7: give fewer "
                "episodes (1 … 6), or raise budget.final_episodes"
            ),
        ),
        (
            ["sweep.screening_episodes=2", "sweep.allocation=racing"],
            "sweep.allocation=racing compares runs on equal numbers of episodes: leave it out",
        ),
        (
            ["sweep.screening_episodes=2", "sweep.allocation=fixed"],
            "sweep.allocation=fixed compares runs on equal numbers of episodes: leave it out",
        ),
        (
            ["sweep.screening_episodes=2", "seeds.tuning=1"],
            "sweep.screening_episodes=2 needs a second tuning seed",
        ),
        # enqueued configurations
        (["sweep.enqueue=[1]"], "sweep.enqueue.0=1: must be a mapping"),
        # pruners
        (
            ["pruner=median", "sweep.objective=[score,auc]"],
            "pruner=median compares one objective, and sweep.objective has 2: set pruner=none",
        ),
        (
            ["pruner=median", "budget.evaluation_every=null"],
            "pruner=median needs evaluations, and no run has any",
        ),
        (
            ["pruner=wilcoxon"],
            "pruner=wilcoxon ends a trial between two seeds, and sweep.allocation=two_stage runs",
        ),
        # seeds
        (["seeds.tuning=0"], "seeds.tuning is empty: a trial is scored on tuning seeds"),
        (["seeds.tuning=[]"], "seeds.tuning is empty: a trial is scored on tuning seeds"),
        (
            ["seeds.tuning=[1,2]", "seeds.test=[2,3]"],
            "seeds.test and seeds.tuning both list [2]; give each phase different seeds",
        ),
    ],
)
def test_invalid_settings_are_refused_in_one_line(
    folder: Path, overrides: list[str], message: str
) -> None:
    """The error for an invalid setting names the setting and what is allowed."""
    assert message in refusal(folder, "mine", *overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ["seeds.test=0"],
        ["seeds.selection=0"],
        ["sweep.trials=1"],
        ["sweep.trials=2", "sweep.finalists=9"],
        ["sweep.steps=10000"],
        ["sweep.steps=10000", "sweep.allocation=racing"],
        ["pruner=median"],
        ["pruner=wilcoxon", "sweep.allocation=fixed", "budget.evaluation_every=null"],
        ["sweep.objective=[score,spread]", "sweep.allocation=fixed"],
        ["sweep.objective=steps_to_threshold"],
        ["agent.network=null", "agent.actor=[8],[9]", "agent.critic=[8],[9]"],
    ],
)
def test_unusual_sweeps_are_allowed(folder: Path, overrides: list[str]) -> None:
    """Small, unusual but valid sweeps pass the checks."""
    check_sweep(compose_sweep("mine", overrides, folder))


def test_unknown_definition_is_refused_with_a_suggestion(folder: Path) -> None:
    """The error for an unknown definition names the nearest, and where the others are listed."""
    message = refusal(folder, "ppo_cartpol")
    assert message.startswith("there is no sweep 'ppo_cartpol'; did you mean 'ppo_cartpole'?")
    assert "rlexp config list sweeps" in message
    assert "did you mean 'mine'?" in refusal(folder, "min")


@pytest.mark.parametrize("name", ["", "space/ppo", "../mine", "mine.yaml", "/etc/passwd", "a=b"])
def test_path_is_not_a_definition_name(folder: Path, name: str) -> None:
    """A path is refused as the name of a definition."""
    assert refusal(folder, name).startswith(f"there is no sweep {name!r}")


@pytest.mark.parametrize(
    "files",
    [
        {"sweeps/bare.yaml": "sweep: {space: {algorithm.gamma: '0.9,0.99'}}\n"},
        {
            "sweeps/bare.yaml": "# @package _global_\ndefaults: [space: bare]\n",
            "sweeps/space/bare.yaml": "algorithm.gamma: '0.9,0.99'\n",
        },
    ],
)
def test_definition_without_package_line_is_refused(folder: Path, files: dict[str, str]) -> None:
    """A definition without the package line, which Hydra needs, is refused."""
    write_tree(folder, files)
    assert "must begin with the line '# @package _global_'" in refusal(folder, "bare")


def test_empty_search_space_is_refused(tmp_path: Path) -> None:
    """A sweep needs at least one parameter to search."""
    assert "the search space is empty" in refusal(tmp_path, None, "algorithm=dqn")
