"""`rlexp power` plans the number of seeds from an effect size or a pilot."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json
from quick_parts import quick_parts
from stored_runs import Stored, configuration, failed, stored, study

from rlexp.app.commands.judge.power import EffectPlan, PilotPlan, PowerRequest, power
from rlexp.app.results import to_json
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.metrics.mean import Mean
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.stats.pairs.power import ComparisonPlan, detectable_effect, seeds_for_power

quick = pytest.fixture(autouse=True)(quick_parts)

PILOT = {"ppo": (10.0, 20.0, 30.0), "a2c": (10.0, 14.0, 18.0)}
MEANS = ("metric=mean",)
PLAN = ComparisonPlan(statistic=Mean(), samples=1_000)
"""The comparison of the means of two labels that the command simulates."""
Scores = Mapping[str, tuple[float, ...]]


@pytest.fixture
def empty_workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    return study(tmp_path)


@pytest.fixture
def output_of(empty_workspace: Workspace) -> Callable[..., str]:
    """The text output of the command."""
    return partial(give, empty_workspace.folder, "power")


@pytest.fixture
def plan(empty_workspace: Workspace) -> Callable[..., Any]:
    """A function that returns the plan of the command."""

    def make_plan(target: str | None = None, **request: Any) -> Any:
        return power(PowerRequest(target=target, **request), empty_workspace)

    return make_plan


def pilot(
    empty_workspace: Workspace, scores: Scores, name: str = "alpha", **settings: Any
) -> Stored:
    """An experiment whose labels reached these scores."""
    experiment = stored(
        empty_workspace.layout, name, *map(configuration, scores), **{"test": 3, **settings}
    )
    for label, values in scores.items():
        for seed, score in enumerate(values):
            experiment.complete(seed, score, label=label)
    return experiment


def complete(experiment: Stored, configured: Configuration, seed: int, score: float) -> None:
    """Store a completed run of a configuration, of which several may have the same label."""
    with_one_configuration = replace(experiment.experiment, configurations=(configured,))
    Stored(experiment.paths, with_one_configuration).complete(seed, score, label=configured.label)


@pytest.mark.parametrize(
    ("effect", "seeds"), [(0.5, 64), (0.8, 26), (1.0, 17), (1.5, 9), (2.0, 6), (-1.0, 17)]
)
def test_seeds_for_an_effect_match_textbooks(
    plan: Callable[..., Any], effect: float, seeds: int
) -> None:
    """For means, the seeds are those of the two-sided t test in textbooks to within a tenth."""
    assert seeds == pytest.approx(plan(effect=effect, overrides=MEANS).seeds, rel=0.1)


@pytest.mark.parametrize(("seeds", "effect"), [(5, 2.02), (10, 1.32), (20, 0.91), (30, 0.74)])
def test_seeds_detect_an_effect(output_of: Callable[..., str], seeds: int, effect: float) -> None:
    """A number of seeds gives the effect that it detects, close to that of a t test for means."""
    text = output_of("--seeds", str(seeds), "--set", "metric=mean")
    sentence = re.search(rf"{seeds} seeds per label detect an effect of (\S+) standard", text)
    assert sentence
    assert effect == pytest.approx(float(sentence[1]), rel=0.07)
    assert re.search(rf"^ +{seeds} +{sentence[1]}$", text, re.MULTILINE)


def test_three_seeds_detect_nothing(output_of: Callable[..., str]) -> None:
    """Three seeds detect no effect, which is said in words and shown as an empty cell."""
    text = output_of("--seeds", "3")
    assert "3 seeds per label detect no effect, however large, with 80 % power" in text
    assert re.search(r"^ +3 +—$", text, re.MULTILINE)


def test_labels_scores_and_metric_are_part_of_the_plan(
    plan: Callable[..., Any], output_of: Callable[..., str]
) -> None:
    """More labels and another shape of scores change the plan, and its note names both."""
    two, five = plan(effect=1.5), plan(effect=1.5, labels=5)
    assert two.seeds < five.seeds
    assert (5, "normal", "iqm") == (five.labels, five.scores, five.metric)
    text = output_of("--effect", "1.5", "--labels", "5", "--scores", "bimodal")
    assert "iqm of 5 labels with bimodal scores, of which one differs" in text


def test_level_and_power_are_settings(plan: Callable[..., Any]) -> None:
    """A lower level and a higher power need more seeds."""
    result = plan(effect=1.0, overrides=("alpha=0.01", "power=0.9", *MEANS))
    assert seeds_for_power(replace(PLAN, alpha=0.01), 1.0, 0.9) == result.seeds > 17
    assert (0.01, 0.9) == (result.alpha, result.power)


def test_a_pilot_gives_the_spread(empty_workspace: Workspace, plan: Callable[..., Any]) -> None:
    """Each label has its spread, and the pair has the root of the mean variance."""
    pilot(empty_workspace, PILOT)
    rows = plan("alpha", difference=10.0, overrides=MEANS).pilots
    assert ["ppo", "a2c", "ppo and a2c"] == [row.pilot for row in rows]
    deviations = [row.standard_deviation for row in rows]
    assert [10.0, 4.0, math.sqrt((100 + 16) / 2)] == pytest.approx(deviations)
    assert [seeds_for_power(PLAN, effect) for effect in (1.0, 2.5)] == [
        row.seeds for row in rows[:2]
    ]
    assert all(row.low <= row.seeds <= row.high for row in rows)


def test_the_label_with_the_widest_spread_decides(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """The output names the label that needs most seeds."""
    pilot(empty_workspace, PILOT)
    text = output_of("alpha", "--difference", "10.0", "--set", "metric=mean")
    seeds = seeds_for_power(PLAN, 1.0)
    assert f"{seeds} seeds per label are needed, by the spread of ppo. Its 3 runs estimate" in text
    assert "At least, at most: by the 95 % chi-square interval" in text


def test_seeds_and_a_pilot_give_a_detectable_difference(
    empty_workspace: Workspace, plan: Callable[..., Any]
) -> None:
    """The detectable difference of a pilot is in units of the scores."""
    pilot(empty_workspace, PILOT)
    rows = plan("alpha", seeds=10, overrides=MEANS).pilots
    expected = [(detectable_effect(PLAN, 10) or 0) * deviation for deviation in (10.0, 4.0)]
    assert expected == pytest.approx([row.detectable for row in rows[:2]])


def test_several_tasks_are_planned_for_together(
    empty_workspace: Workspace, plan: Callable[..., Any]
) -> None:
    """Several tasks are planned together on normalised scores, and need fewer seeds each."""
    anchors = {"random": 0.0, "threshold": 1.0, "source": "made up"}
    tasks = [replace(configuration("ppo", t), reference=anchors) for t in ("One-v1", "Two-v1")]
    experiment = stored(empty_workspace.layout, "alpha", *tasks, test=3)
    for task in tasks:
        for seed, score in enumerate(PILOT["ppo"]):
            complete(experiment, task, seed, score)
    result = plan("alpha", difference=10.0, overrides=MEANS)
    (row,) = result.pilots
    assert ("normalised score", 6) == (result.unit, row.n)
    assert row.standard_deviation == pytest.approx(10.0)
    assert seeds_for_power(replace(PLAN, tasks=2), 1.0) == row.seeds < 12


def test_a_single_label_stands_for_both_sides(
    empty_workspace: Workspace, plan: Callable[..., Any]
) -> None:
    """The spread of a single label is used for both sides of the pair."""
    pilot(empty_workspace, PILOT)
    rows = plan("alpha/a2c", difference=4.0, overrides=MEANS).pilots
    expected = [("a2c", seeds_for_power(PLAN, 1.0))]
    assert expected == [(row.pilot, row.seeds) for row in rows]


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ({"ppo": ()}, "ppo: no score on CartPole-v1, so its spread is unknown"),
        ({"ppo": (math.nan,) * 3}, "ppo: no score on CartPole-v1, so its spread is unknown"),
        ({"ppo": (10.0,)}, "The number of seeds cannot be planned"),
        ({"ppo": (10.0, 10.0, 10.0)}, "The number of seeds cannot be planned"),
    ],
)
def test_a_pilot_without_spread_gives_a_reason(
    empty_workspace: Workspace, output_of: Callable[..., str], scores: Scores, reason: str
) -> None:
    """A pilot without scores, or with one score or equal ones, gives a reason and no number."""
    pilot(empty_workspace, scores)
    text = output_of("alpha", "--difference", "1.0")
    assert reason in text
    assert "The number of seeds cannot be planned" in text
    assert "is found with" not in text


def test_a_label_of_failed_runs_is_left_out(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """A label without scores causes a warning, and the other label gives the plan."""
    experiment = pilot(empty_workspace, {"ppo": PILOT["ppo"], "a2c": ()})
    for seed in range(3):
        experiment.attempt(seed, failed(), label="a2c")
    text = output_of("alpha", "--difference", "10.0")
    assert "Warning: a2c: no score on CartPole-v1" in text
    assert "seeds per label are needed, by the spread of ppo" in text


def test_nan_scores_are_left_out_of_a_pilot(
    empty_workspace: Workspace, plan: Callable[..., Any]
) -> None:
    """NaN scores count neither for the spread nor for n."""
    pilot(empty_workspace, {"ppo": (*PILOT["ppo"], math.nan)}, test=4)
    (row,) = plan("alpha", difference=10.0, overrides=MEANS).pilots
    assert (3, seeds_for_power(PLAN, 1.0)) == (row.n, row.seeds)


def test_a_label_without_a_task_is_named(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """A label without runs on every task causes a warning."""
    cells = [configuration("ppo"), configuration("a2c"), configuration("ppo", "Pendulum-v1")]
    experiment = stored(empty_workspace.layout, "alpha", *cells, test=3)
    for cell in experiment.experiment.configurations:
        for seed in range(3):
            complete(experiment, cell, seed, 10.0 * seed)
    assert "Warning: a2c: it has no runs on some of the tasks" in output_of(
        "alpha", "--seeds", "5"
    )


def test_unequal_budgets_cause_a_warning(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """Different numbers of training steps cause a warning."""
    experiment = stored(
        empty_workspace.layout, "alpha", configuration("ppo"), configuration("a2c", steps=200)
    )
    for label, values in PILOT.items():
        for seed, score in enumerate(values):
            experiment.complete(seed, score, label=label)
    text = output_of("alpha", "--difference", "10.0")
    assert "Warning: On CartPole-v1, runs differ in environment steps: ppo 100; a2c 200." in text
    assert "by the spread of ppo" in text


def test_two_identical_labels_have_the_spread_of_one(
    empty_workspace: Workspace, plan: Callable[..., Any]
) -> None:
    """Two identical labels have the spread of one, with a narrower interval."""
    pilot(empty_workspace, {"ppo": PILOT["ppo"], "a2c": PILOT["ppo"]})
    first, second, pair = plan("alpha", difference=10.0, overrides=MEANS).pilots
    assert seeds_for_power(PLAN, 1.0) == first.seeds == second.seeds == pair.seeds
    assert pair.high < first.high == second.high


def test_tuning_runs_are_the_pilot_without_test_runs(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """Without test runs, tuning runs are the pilot."""
    experiment = stored(empty_workspace.layout, "tuned", test=0)
    for seed, score in enumerate((10.0, 20.0)):
        experiment.complete(seed, score, phase=Phase.TUNING)
    assert "by the spread of ppo" in output_of("tuned", "--difference", "10.0")


@pytest.mark.parametrize(
    ("target", "options", "problem"),
    [
        (None, {}, "give the effect to detect"),
        ("alpha", {}, "give the effect to detect"),
        (None, {"difference": 1.0}, "--difference is in units of the scores"),
        ("alpha", {"effect": 1.0}, "takes no pilot"),
        (None, {"effect": 1.0, "difference": 1.0}, "exclude each other"),
        (None, {"effect": 0.0}, "no number of seeds up to 100,000 detects an effect of 0"),
        (None, {"effect": math.nan}, "must be finite numbers"),
        ("alpha", {"difference": 0.0}, "the difference must be a finite number other than 0"),
        ("alpha", {"difference": math.inf}, "must be finite numbers"),
        (None, {"effect": 1.0, "overrides": ("alpha=0",)}, "alpha=0"),
        (None, {"effect": 1.0, "overrides": ("power=0.01",)}, "power = 0.01 must lie between"),
        (None, {"effect": 1.0, "overrides": ("powr=0.9",)}, "did you mean 'power=0.9'?"),
        ("alhpa", {"seeds": 3}, "there is no experiment 'alhpa'"),
        ("alpha/ppa", {"seeds": 3}, "alpha has no label 'ppa'; did you mean 'ppo'?"),
    ],
)
def test_mistakes_are_one_line_errors(
    empty_workspace: Workspace,
    plan: Callable[..., Any],
    target: str | None,
    options: dict[str, Any],
    problem: str,
) -> None:
    """Wrong options and targets give a one-line error."""
    pilot(empty_workspace, PILOT)
    with pytest.raises(RlexpError, match=re.escape(problem)) as caught:
        plan(target, **options)
    assert isinstance(caught.value, ConfigError | RecordError)
    assert "\n" not in str(caught.value)


def test_json_has_a_plan_by_effect(empty_workspace: Workspace) -> None:
    """With --json, the document of a plan by effect has a table of common numbers of seeds."""
    arguments = ("power", "--effect", "1", "--seeds", "10", "--set", "metric=mean")
    result = give_json(empty_workspace.folder, "power-by-effect", *arguments)
    assert (seeds_for_power(PLAN, 1.0), 10) == (result["seeds"], result["planned"])
    assert {"seeds", "detectable", "power"} == result["table"][0].keys()
    assert detectable_effect(PLAN, 10) == result["detectable"]


def test_json_has_a_plan_by_pilot(empty_workspace: Workspace, plan: Callable[..., Any]) -> None:
    """With --json, the document of a plan by pilot equals the result in Python."""
    pilot(empty_workspace, PILOT)
    arguments = ("power", "alpha", "--difference", "10")
    result = give_json(empty_workspace.folder, "power-by-pilot", *arguments)
    assert to_json(plan("alpha", difference=10.0)) == result
    assert ["ppo", "a2c", "ppo and a2c"] == [row["pilot"] for row in result["pilots"]]


def test_the_kind_of_plan_depends_on_the_target(
    empty_workspace: Workspace, plan: Callable[..., Any]
) -> None:
    """A target gives a plan by a pilot, and no target a plan by an effect."""
    pilot(empty_workspace, PILOT)
    assert isinstance(plan("alpha", seeds=5), PilotPlan)
    assert isinstance(plan(seeds=5), EffectPlan)
