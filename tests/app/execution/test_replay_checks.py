"""A replay that does not fit is refused on one line before training, and the plan says what it writes."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from finished_runs import study
from last_words import last_words
from quick_parts import quick_parts
from samples import write_tree

from rlexp.app.execution.checkpoints import describe_beginnings, largest_rewritten_part
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces, check_compatibility
from rlexp.app.execution.checks.import_permission import foreign_modules
from rlexp.app.execution.configuration_words import words_of
from rlexp.app.execution.extension import lengthen
from rlexp.app.execution.memory_plan import memory_of
from rlexp.app.execution.request import RunRequest, read_request, with_current_parts
from rlexp.app.reading.experiment_scan import configuration_of
from rlexp.cli.plans import checkpoint_lines
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration

quick = pytest.fixture(autouse=True)(quick_parts)
ODD = Path(__file__).parents[2] / "training"
GOALS = (
    *("agent=multi_input", "algorithm=dqn", "environment=gymnasium", "replay=her"),
    "environment.id=odd_environments:GoalBits-v0",
)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ODD), *sys.path])


def request(folder: Path, *words: str) -> RunRequest:
    """The request of these words."""
    return read_request(last_words(*words), study(folder, "odd_environments"))


def configuration(folder: Path, *words: str) -> Configuration:
    """The only configuration of these words."""
    return request(folder, *words).experiment.configurations[0]


def refusal(folder: Path, *words: str) -> str:
    """Why a run of these words is refused; empty if it is not."""
    try:
        asked = request(folder, *words)
        workspace = study(folder, "odd_environments")
        check_compatibility(asked.experiment.configurations, workspace, parts=asked.parts)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("algorithm=ppo", "replay=her"), "PPO has none: choose algorithm=sac, td3 or dqn"),
        (("algorithm=dqn", "replay=her"), "replay=her needs a task with goals"),
        (
            ("algorithm=external", "algorithm.command=true", "replay=n_step"),
            "replay=n_step cannot change how a training script stores experience",
        ),
        (
            ("algorithm=dqn", "replay=n_step", "algorithm.n_steps=3"),
            "replay=n_step and algorithm.n_steps both set",
        ),
        (
            ("algorithm=dqn", "replay=n_step", "algorithm.buffer_size=2"),
            "replay.n_steps=3 is more than the 2 steps",
        ),
        ((*GOALS, "replay=n_step"), "replay=n_step takes no dictionaries"),
        (
            ("algorithm=qrdqn", "replay=prioritised"),
            "not defined for QRDQN: choose algorithm=dqn, ddpg, sac or td3",
        ),
        (
            ("algorithm=dqn", "replay=prioritised", "algorithm.n_steps=2"),
            "computes one-step returns, and algorithm.n_steps is 2: set algorithm.n_steps=1",
        ),
        (
            (
                *("algorithm=dqn", "replay=prioritised", "algorithm.optimize_memory_usage=true"),
                "algorithm.replay_buffer_kwargs={handle_timeout_termination: false}",
            ),
            "set algorithm.optimize_memory_usage=false",
        ),
        ((*GOALS, "algorithm.learning_starts=7"), "set algorithm.learning_starts=8 or more"),
        ((*GOALS, "algorithm.buffer_size=15"), "set algorithm.buffer_size=16 or more"),
        ((*GOALS, "environment.vector.frame_stack=2"), "set environment.vector.frame_stack=1"),
        (
            (*GOALS, "environment.id=odd_environments:CostlyGoalBits-v0"),
            "its rewards are not those of its compute_reward",
        ),
        ((*GOALS, "replay.n_sampled_goal=0"), "replay.n_sampled_goal=0: must be greater"),
        (("algorithm=dqn", "replay=prioritised", "replay.alpha=2"), "replay.alpha=2"),
    ],
)
def test_what_does_not_fit_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    """The refusal is one line that says what to change."""
    refused = refusal(tmp_path, *words)
    assert message in refused
    assert "\n" not in refused


@pytest.mark.parametrize(
    "words",
    [
        GOALS,
        (*GOALS, "replay=prioritised"),
        (
            *(*GOALS, "environment.id=odd_environments:CostlyGoalBits-v0"),
            "replay.copy_info_dict=true",
        ),
    ],
)
def test_what_fits_is_accepted(words: tuple[str, ...], tmp_path: Path) -> None:
    """Tasks with goals pass, and rewards that need an info pass where the info is given."""
    assert "" == refusal(tmp_path, *words)


def test_uniform_replay_is_no_part_of_an_identity(tmp_path: Path) -> None:
    """A run with uniform replay is the run from before replays; every other replay is another run."""
    plain, uniform, hindsight = (
        configuration(tmp_path, *words)
        for words in (
            GOALS[:-2] + GOALS[-1:],
            (*GOALS, "replay=uniform"),
            GOALS,
        )
    )
    assert plain.fingerprint == uniform.fingerprint != hindsight.fingerprint
    assert "replay" not in uniform.parts()
    other = configuration(tmp_path, *GOALS, "replay.n_sampled_goal=5")
    assert other.fingerprint != hindsight.fingerprint


def test_a_class_that_derives_from_uniform_replay_is_recorded(tmp_path: Path) -> None:
    """A replay of the user that derives from uniform replay is another run, not uniform replay."""
    module = """
from dataclasses import dataclass
from rlexp.replay.uniform import Uniform

@dataclass(frozen=True, slots=True, kw_only=True)
class Mine(Uniform):
    pass
"""
    files = {
        "derived_replay.py": module,
        "conf/replay/mine.yaml": "_target_: derived_replay.Mine\n",
    }
    write_tree(tmp_path, files)
    words = ("algorithm=dqn", "replay=mine")
    asked = read_request(words, study(tmp_path, "derived_replay"))
    replay = asked.experiment.configurations[0].replay
    assert replay is not None
    assert "derived_replay.Mine" == replay["_target_"]


def test_a_replay_whose_class_moved_is_the_same_run(tmp_path: Path) -> None:
    """A recorded configuration takes the classes of the request, that of its replay too."""
    current = configuration(tmp_path, "algorithm=dqn", "replay=prioritised")
    assert current.replay is not None
    recorded = replace(
        current, replay={**current.replay, "_target_": "rlexp.replay.former.Former"}
    )
    assert recorded.fingerprint == current.fingerprint
    assert (current,) == with_current_parts([recorded], [current])


def test_a_run_without_its_experiment_keeps_replay_and_callbacks(tmp_path: Path) -> None:
    """The configuration that is made from the definition of a run is that run's."""
    words = ("algorithm=dqn", "replay=prioritised", "callback=dormant_ratio")
    (spec, *_) = request(tmp_path, *words).specs()
    paths = study(tmp_path).layout.experiment("lost").run(spec.name)
    assert spec.fingerprint == configuration_of(paths, spec).fingerprint


def test_a_recorded_replay_can_be_typed_again(tmp_path: Path) -> None:
    """The words of a recorded configuration hold its replay and the settings that differ."""
    recorded = configuration(tmp_path, "algorithm=dqn", "replay=prioritised", "replay.beta=0.5")
    words = words_of(recorded, study(tmp_path)).overrides()
    assert {"replay=prioritised", "replay.beta=0.5"} <= {*words}


def test_the_plan_says_what_each_checkpoint_writes_again(tmp_path: Path) -> None:
    """The priorities of 2,000 transitions take 16 kB, and uniform replay writes nothing again."""
    words = ("algorithm=dqn", "algorithm.buffer_size=2000")
    uniform = request(tmp_path, *words).specs()
    specs = request(tmp_path, *words, "replay=prioritised").specs()
    assert 0 == largest_rewritten_part(uniform)
    beginnings = describe_beginnings({}, None, 0, largest_rewritten_part(specs))
    assert 16_000 == beginnings.rewritten_bytes
    (line,) = checkpoint_lines(beginnings)
    assert "written again by replay at each checkpoint: up to 16 kB per run" in line
    spaces = EnvironmentSpaces(("Box",), "Discrete", 1, masked=False, transition=50, frame=16)
    rows = [memory_of(each[0], spaces, 10**12).row for each in (uniform, specs)]
    assert [50, 50 + 32] == rows


def test_an_annealed_exponent_depends_on_the_length_of_training(tmp_path: Path) -> None:
    """A longer run begins `replay.beta` again only if that is allowed; a constant one needs nothing."""
    words = ("algorithm=dqn", "algorithm.exploration_fraction=1", "replay=prioritised")
    constant = ("algorithm.exploration_initial_eps=0.05", "budget.steps=1000")
    workspace = study(tmp_path)
    before = configuration(tmp_path, *words, *constant)
    with pytest.raises(ConfigError, match=r"^replay\.beta of .* depends on the length"):
        lengthen(before, 2000, workspace, restart=False, fresh="start anew")
    longer = lengthen(before, 2000, workspace, restart=True, fresh="start anew")
    assert ("replay.beta",) == longer.restarted
    settled = configuration(tmp_path, *words, *constant, "replay.beta=1")
    assert () == lengthen(settled, 2000, workspace, restart=False, fresh="start anew").restarted


def test_code_of_a_replay_needs_permission(tmp_path: Path) -> None:
    """The class of a recorded replay is among the code that a run would import."""
    recorded = configuration(tmp_path, "algorithm=dqn", "replay=n_step")
    foreign = replace(
        recorded, replay={**(recorded.replay or {}), "_target_": "mine.replays.Mine"}
    )
    assert "mine.replays.Mine" in foreign_modules(foreign)
    assert {*foreign_modules(recorded)} == {*foreign_modules(foreign)} - {"mine.replays.Mine"}
