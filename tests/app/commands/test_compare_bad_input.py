"""`rlexp compare` handles unusable records and arguments with clear messages."""

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from comparisons import A2C, FAR, NEAR, PPO, comparison_output, with_scores
from quick_parts import quick_parts
from stored_runs import configuration, failed, stored, study

from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, ProtocolError, RecordError, RlexpError
from rlexp.protocol.seeds import Phase

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def empty_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


@pytest.fixture
def output_of(empty_workspace: Workspace) -> Callable[..., str]:
    """The text output of a comparison."""
    return partial(comparison_output, empty_workspace)


def test_a_label_cannot_be_compared_with_itself(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """A label that is named twice is one label, and the error asks for another target."""
    with_scores(empty_workspace, FAR)
    with pytest.raises(ConfigError, match=r"the targets hold only ppo: name a second experiment"):
        output_of("alpha/ppo", "alpha/ppo")


def test_equal_scores_are_undecided(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """Two labels with identical scores differ by 0, and the verdict is undecided."""
    with_scores(empty_workspace, {"ppo": NEAR["ppo"], "a2c": NEAR["ppo"]})
    text = output_of("alpha")
    assert "Undecided between ppo and a2c" in text
    assert re.search(r"^ppo +a2c +undecided +3 and 3 +0\.00 \[", text, re.MULTILINE)


def test_an_experiment_without_runs_says_so(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """Without runs, there are no numbers and no verdict, and missing runs are counted."""
    stored(empty_workspace.layout, "alpha", PPO, A2C)
    text = output_of("alpha")
    assert "ppo and a2c cannot be compared" in text
    assert "0 of 3" in text
    assert "nan" not in text.lower()


def test_one_seed_decides_nothing(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """With one run per label there is no interval, and the verdict is undecided."""
    with_scores(empty_workspace, {"ppo": (10.0,), "a2c": (90.0,)})
    text = output_of("alpha")
    assert "Undecided between ppo and a2c" in text
    assert "[—] Too few runs for an interval (n = 1)." in text
    assert re.search(r"^CartPole-v1  ppo +1 of 1 +10.* \[—\]", text, re.MULTILINE)


def test_a_label_whose_runs_all_failed_is_not_compared(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """A label without scores is not compared, and the failures are counted by reason."""
    experiment = with_scores(empty_workspace, {"ppo": NEAR["ppo"], "a2c": ()})
    for seed in range(3):
        experiment.attempt(seed, failed(), label="a2c")
    text = output_of("alpha")
    assert "ppo and a2c cannot be compared" in text
    assert "3 failed (nan)" in text
    assert "--adaptive" not in text


def test_a_nan_score_is_left_out_and_counted(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """A run whose score is NaN is left out and counted as a run without a score."""
    with_scores(empty_workspace, {"ppo": (*FAR["ppo"], math.nan), "a2c": (*FAR["a2c"], 15.0)})
    text = output_of("alpha")
    assert re.search(r"^CartPole-v1  ppo +5 of 6 ", text, re.MULTILINE)
    assert "1 run of ppo on these tasks without a score" in text


def test_constant_scores_have_no_interval(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """If all runs are equal, the output says that no interval is possible."""
    with_scores(empty_workspace, {"ppo": (50.0,) * 5, "a2c": (50.0,) * 5})
    text = output_of("alpha")
    assert "Undecided between ppo and a2c" in text
    assert "No interval: all runs are equal" in text


def test_unequal_budgets_cause_a_warning(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """Different numbers of training steps cause a warning."""
    experiment = stored(
        empty_workspace.layout, "alpha", PPO, configuration("a2c", steps=200), test=5
    )
    for label, values in FAR.items():
        for seed, score in enumerate(values):
            experiment.complete(seed, score, label=label)
    text = output_of("alpha")
    assert "Warning: On CartPole-v1, runs differ in environment steps: ppo 100; a2c 200." in text


def test_a_missing_task_is_named(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """A task on which one label has no planned run is named."""
    experiment = stored(
        empty_workspace.layout, "alpha", PPO, A2C, configuration("ppo", "Acrobot-v1"), test=5
    )
    for label, values in FAR.items():
        for seed, score in enumerate(values):
            experiment.complete(seed, score, label=label)
    text = output_of("alpha")
    assert "a2c has no planned run on Acrobot-v1" in text
    assert re.search(r"^Acrobot-v1 +a2c +", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (("alpha/ppa", "alpha/a2c"), "alpha has no label 'ppa'; did you mean 'ppo'?"),
        (("alpha/ppo", "alhpa/a2c"), "there is no experiment 'alhpa'"),
        (("alpha/ppo",), "the targets hold only ppo"),
    ],
)
def test_unknown_targets_are_refused(
    empty_workspace: Workspace,
    output_of: Callable[..., str],
    targets: tuple[str, ...],
    problem: str,
) -> None:
    """An unknown target gives a one-line error."""
    with_scores(empty_workspace, NEAR)
    with pytest.raises(RlexpError, match=re.escape(problem)) as caught:
        output_of(*targets)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("alpha=2", "alpha=2"),
        ("interval=foo", 'interval="foo": must be'),
        ("metric=[imq]", "there is no metric=imq; did you mean 'iqm'?"),
        ("intervall=t", "unknown key 'intervall'; did you mean 'interval=t'?"),
    ],
)
def test_unknown_settings_are_refused(
    empty_workspace: Workspace, output_of: Callable[..., str], word: str, problem: str
) -> None:
    """An unknown setting, or a value that is not allowed, is named in the error."""
    with_scores(empty_workspace, NEAR)
    with pytest.raises(ConfigError, match=re.escape(problem)):
        output_of("alpha", overrides=(word,))


def test_phases_are_never_mixed(empty_workspace: Workspace, output_of: Callable[..., str]) -> None:
    """Tuning scores of one experiment are not compared with test scores of another."""
    with_scores(empty_workspace, {"ppo": NEAR["ppo"]}, "tested")
    tuned_only = stored(empty_workspace.layout, "tuned", A2C, test=0)
    for seed in range(2):
        tuned_only.complete(seed, 10.0, label="a2c", phase=Phase.TUNING)
    with pytest.raises(ProtocolError, match="scores of different phases are never combined"):
        output_of("tested", "tuned")


def test_an_unreadable_definition_is_refused(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """The error about a damaged definition names a command that lists the runs."""
    with_scores(empty_workspace, NEAR).paths.definition.write_text("{")
    with pytest.raises(RecordError, match="'rlexp ls alpha' lists its runs"):
        output_of("alpha")
