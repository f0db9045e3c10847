"""`rlexp compare` on bad records and mistyped words: plain words, never a traceback."""

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from comparisons import A2C, FAR, NEAR, PPO, said, with_scores
from quick_parts import quick_parts
from stored_runs import configuration, failed, stored, study

from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, ProtocolError, RecordError, RlexpError
from rlexp.protocol.seeds import Phase

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty study, in whose folder the command is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


@pytest.fixture
def say(place: Workspace) -> Callable[..., str]:
    """What a comparison says to people."""
    return partial(said, place)


def test_a_label_against_itself_is_alone(place: Workspace, say: Callable[..., str]) -> None:
    """A = B named twice is one label, and there is nothing to compare it with."""
    with_scores(place, FAR)
    with pytest.raises(ConfigError, match=r"^ppo is alone: name a second experiment"):
        say("alpha/ppo", "alpha/ppo")


def test_equal_scores_are_undecided(place: Workspace, say: Callable[..., str]) -> None:
    """Two labels with the very same scores differ by 0, which may be chance."""
    with_scores(place, {"ppo": NEAR["ppo"], "a2c": NEAR["ppo"]})
    text = say("alpha")
    assert "Undecided between ppo and a2c" in text
    assert re.search(r"^ppo +a2c +3 and 3 +0\.00 \[", text, re.MULTILINE)


def test_an_experiment_without_runs_says_so(place: Workspace, say: Callable[..., str]) -> None:
    """Nothing has run: no number, no verdict, and the missing runs are counted."""
    stored(place.layout, "alpha", PPO, A2C)
    text = say("alpha")
    assert "ppo and a2c cannot be compared" in text
    assert "0 of 3" in text
    assert "nan" not in text.lower()


def test_one_seed_decides_nothing(place: Workspace, say: Callable[..., str]) -> None:
    """One run of each shows no spread: no interval, no verdict but undecided."""
    with_scores(place, {"ppo": (10.0,), "a2c": (90.0,)})
    text = say("alpha")
    assert "Undecided between ppo and a2c" in text
    assert "[—] Too few runs for an interval (n = 1)." in text
    assert re.search(r"^CartPole-v1  ppo +1 of 1 +10.* \[—\]", text, re.MULTILINE)


def test_failures_are_no_scores(place: Workspace, say: Callable[..., str]) -> None:
    """All runs of a label failed: it cannot be compared, and the reason of each is counted."""
    there = with_scores(place, {"ppo": NEAR["ppo"], "a2c": ()})
    for seed in range(3):
        there.attempt(seed, failed(), label="a2c")
    text = say("alpha")
    assert "ppo and a2c cannot be compared" in text
    assert "3 failed (nan)" in text
    assert "--adaptive" not in text


def test_nan_is_no_score(place: Workspace, say: Callable[..., str]) -> None:
    """A run that returned NaN is left out and counted; n says so."""
    with_scores(place, {"ppo": (*FAR["ppo"], math.nan), "a2c": (*FAR["a2c"], 15.0)})
    text = say("alpha")
    assert re.search(r"^CartPole-v1  ppo +5 of 6 ", text, re.MULTILINE)
    assert "1 run of ppo on these tasks without a score" in text


def test_constant_scores_have_no_interval(place: Workspace, say: Callable[..., str]) -> None:
    """Where all runs are equal, the comparison says that no interval is possible."""
    with_scores(place, {"ppo": (50.0,) * 5, "a2c": (50.0,) * 5})
    text = say("alpha")
    assert "Undecided between ppo and a2c" in text
    assert "No interval: all runs are equal" in text


def test_unequal_budgets_are_a_warning(place: Workspace, say: Callable[..., str]) -> None:
    """Whoever trained longer has an advantage, and the comparison says so."""
    there = stored(place.layout, "alpha", PPO, configuration("a2c", steps=200), test=5)
    for label, own in FAR.items():
        for seed, score in enumerate(own):
            there.complete(seed, score, label=label)
    text = say("alpha")
    assert "Warning: On CartPole-v1 runs differ in environment steps: ppo 100; a2c 200." in text


def test_a_missing_task_is_named(place: Workspace, say: Callable[..., str]) -> None:
    """A verdict is about the tasks that both have; the other one is named, and has no cell."""
    there = stored(place.layout, "alpha", PPO, A2C, configuration("ppo", "Acrobot-v1"), test=5)
    for label, own in FAR.items():
        for seed, score in enumerate(own):
            there.complete(seed, score, label=label)
    text = say("alpha")
    assert "a2c was not asked for on Acrobot-v1" in text
    assert re.search(r"^Acrobot-v1 +a2c +", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (("alpha/ppa", "alpha/a2c"), "alpha has no label 'ppa'; did you mean 'ppo'?"),
        (("alpha/ppo", "alhpa/a2c"), "there is no experiment 'alhpa'"),
        (("alpha/ppo",), "ppo is alone"),
    ],
)
def test_unknown_targets_are_refused(
    place: Workspace, say: Callable[..., str], targets: tuple[str, ...], problem: str
) -> None:
    """A mistyped target is one line that says what there is."""
    with_scores(place, NEAR)
    with pytest.raises(RlexpError, match=re.escape(problem)) as refused:
        say(*targets)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("alpha=2", "alpha=2"),
        ("interval=foo", 'interval="foo": must be'),
        ("metric=[imq]", "there is no metric=imq; did you mean 'iqm'?"),
        ("intervall=t", "unknown key 'intervall'; did you mean 'interval'?"),
    ],
)
def test_bad_settings_are_refused(
    place: Workspace, say: Callable[..., str], word: str, problem: str
) -> None:
    """A mistyped setting is one line that says what is allowed."""
    with_scores(place, NEAR)
    with pytest.raises(ConfigError, match=re.escape(problem)):
        say("alpha", overrides=(word,))


def test_phases_are_never_mixed(place: Workspace, say: Callable[..., str]) -> None:
    """Tuning scores of one experiment and test scores of another are not put together."""
    with_scores(place, {"ppo": NEAR["ppo"]}, "tested")
    tuned = stored(place.layout, "tuned", A2C, test=0)
    for seed in range(2):
        tuned.complete(seed, 10.0, label="a2c", phase=Phase.TUNING)
    with pytest.raises(ProtocolError, match="scores of different phases are never combined"):
        say("tested", "tuned")


def test_an_unreadable_definition_is_refused(place: Workspace, say: Callable[..., str]) -> None:
    """Damage is one line that names the file."""
    with_scores(place, NEAR).paths.definition.write_text("{")
    with pytest.raises(RecordError, match="'rlexp ls alpha' lists its runs"):
        say("alpha")
