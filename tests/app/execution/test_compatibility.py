"""What cannot fit is refused before anything starts, and no environment can harm the command."""

import os
from pathlib import Path

import psutil
import pytest
from quick_parts import quick_parts

from rlexp.app.execution.compatibility import call_in_subprocess, check_fit
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)


def refusal(folder: Path, *words: str) -> str:
    """Why words are refused."""
    study = Workspace(folder, Layout(folder / "runs"))
    with pytest.raises(ConfigError) as caught:
        check_fit(read_request(words, study).experiment.configurations, study)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["algorithm=dqn", "environment=pendulum"], "DQN cannot act on Pendulum-v1"),
        (["agent=cnn"], "agent=cnn cannot read CartPole-v1: its observations are Box"),
        (["agent=lstm"], "gives a MlpLstmPolicy, which PPO does not have"),
        (["algorithm=maskable_ppo"], "CartPole-v1 has no action_masks()"),
        (
            ["budget.steps=2000"],
            "less than one rollout (n_steps * environments = 2048 * 1 = 2048)",
        ),
        (
            ["environment=frozen_lake", "environment.vector.normalise_observations=true"],
            "environment.vector.normalise_observations needs numeric observations",
        ),
        (
            ["environment=frozen_lake", "environment.vector.frame_stack=2"],
            "environment.vector.frame_stack needs numeric observations",
        ),
        (["environment.arguments.colour=red"], "unexpected keyword argument 'colour'"),
    ],
)
def test_parts_that_do_not_fit_are_named(words: list[str], reason: str, tmp_path: Path) -> None:
    """One line says what does not fit what, and what does."""
    assert reason in refusal(tmp_path, *words)


def test_parts_that_fit_pass(tmp_path: Path) -> None:
    """The defaults fit one another."""
    study = Workspace(tmp_path, Layout(tmp_path / "runs"))
    check_fit(read_request([], study).experiment.configurations, study)


def test_a_question_is_answered_from_a_process_apart() -> None:
    """The answer comes back as plain values, and no child is left."""
    before = psutil.Process().children()
    assert [1, {"a": None}] == call_in_subprocess("it", lambda: [1, {"a": None}])
    assert before == psutil.Process().children()


@pytest.mark.parametrize(
    ("end", "how"),
    [(lambda: os._exit(0), "with code 0"), (lambda: os.kill(os.getpid(), 9), "by signal 9")],
)
def test_a_question_that_kills_is_survived(end: object, how: str) -> None:
    """What would have ended the command is an error with a name."""
    assert callable(end)
    with pytest.raises(ConfigError, match=f"the process that examined it ended {how}"):
        call_in_subprocess("it", end)


def test_an_error_crosses_over() -> None:
    """Our own errors keep their words, others are named."""
    with pytest.raises(ConfigError, match=r"^ValueError: two lines$"):
        call_in_subprocess("it", lambda: int_of("two\nlines"))


def int_of(text: str) -> int:
    """Fail with a message of several lines."""
    raise ValueError(text)
