"""What is refused of callbacks before anything trains, and what plans say of them."""

from pathlib import Path
from typing import Any

import pytest

from rlexp.algorithms import BringsEnvironments
from rlexp.app.execution.checks.callback_checks import (
    check_callbacks,
    length_obstacle,
    plan_remarks,
    refuse_callbacks,
    teacher_obstacle,
)
from rlexp.app.execution.configuration_words import words_of
from rlexp.app.execution.extension import check_replay
from rlexp.app.execution.request import configuration_of
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase

CLASSES = """
from stable_baselines3.common.callbacks import BaseCallback


class Counting(BaseCallback):
    def __init__(self, most: int, names: list[str] | None = None, verbose: int = 0):
        super().__init__(verbose)
        self.most = most

    def _on_step(self):
        return True


class Kept(Counting):
    depends_on_length = False

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Abstract(BaseCallback):
    pass
"""
SCHEDULE = "callback.schedule.values={{{}}}"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace with the callbacks of a user."""
    (tmp_path / "counted_callbacks.py").write_text(CLASSES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Workspace.here(("counted_callbacks",), folder=tmp_path)


def composed(study: Workspace, *words: str) -> tuple[Configuration, Any]:
    """A configuration and its algorithm."""
    (composition,) = compose(words, study.folder)
    root, parts = validate(composition.plain, study.allowed)
    return configuration_of(composition, root, parts), parts.algorithm


def checked(study: Workspace, *words: str) -> Configuration:
    """A configuration whose callbacks fit its algorithm."""
    configuration, algorithm = composed(study, *words)
    check_callbacks(configuration, algorithm, study)
    return configuration


def users(name: str, *settings: str) -> tuple[str, ...]:
    """The words of a callback of the study."""
    target = f"+callback.mine._target_=counted_callbacks.{name}"
    return (target, *(f"+callback.mine.{setting}" for setting in settings))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (users("Counting"), "callback.mine.most is missing: give it a value"),
        (users("Counting", "most=x"), 'callback.mine.most="x": must be an integer'),
        (users("Counting", "most=1", "names=[1]"), "callback.mine.names"),
        (
            users("Counting", "most=1", "mots=2"),
            "unknown key 'callback.mine.mots'; did you mean 'most'?",
        ),
        (users("Abstract"), "counted_callbacks.Abstract is abstract: write its method _on_step"),
        (
            ("+callback.mine._target_=os.system",),
            "is not allowed: it must start with rlexp.callbacks.",
        ),
        (("callback=reset",), "there is no callback=reset; did you mean 'resets'?"),
        (("callback=resets", "callback.resets.every=0"), "must be greater than or equal to 1"),
        (
            ("callback=schedule", SCHEDULE.format("gama: {shape: linear, initial: 1}")),
            "PPO has no hyperparameter 'gama'; did you mean 'gamma'?",
        ),
        (
            ("callback=schedule", SCHEDULE.format("clip_range_vf: {shape: linear, initial: 1}")),
            "algorithm.clip_range_vf is null: give it a value, or choose another hyperparameter",
        ),
        (
            ("callback=schedule", SCHEDULE.format("target_kl: {shape: linear, initial: 1}")),
            "target_kl of PPO cannot change while a run trains",
        ),
        (
            ("callback=schedule", SCHEDULE.format("use_sde: {shape: linear, initial: 1}")),
            "use_sde of PPO cannot change while a run trains",
        ),
        (
            ("callback=schedule", SCHEDULE.format("gamma: {shape: linear, initial: 2}")),
            "callback schedule would set gamma=2: algorithm.gamma=2.0: must be less than or equal to 1",
        ),
        (
            ("callback=schedule", SCHEDULE.format("gamma: {shape: exponential, initial: 1}")),
            "no factor leads there",
        ),
        (
            (
                *("callback=schedule", SCHEDULE.format("gamma: {shape: linear, initial: 1}")),
                "algorithm.gamma={shape: steps, steps: [0, 9], values: [0.9, 0.99]}",
            ),
            "algorithm.gamma has a schedule already",
        ),
        (
            ("callback=adaptive_rollout_length", "algorithm=sac", "environment=pendulum"),
            "n_steps of SAC cannot change while a run trains",
        ),
        (
            ("callback=adaptive_rollout_length", "callback.adaptive_rollout_length.low=32"),
            "would set n_steps=32: algorithm.batch_size=64 is more than a rollout holds",
        ),
        (("budget.stop_at=1", "budget.score=auc"), "budget.stop_at ends some curves early"),
    ],
)
def test_mistakes_are_one_line_before_training(
    words: tuple[str, ...], message: str, study: Workspace
) -> None:
    """Each mistake is refused with what was wrong and what is allowed, on one line."""
    with pytest.raises(ConfigError) as caught:
        checked(study, *words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class OneProgram:
    """An algorithm that trains as one compiled program."""

    def check_task(self, *_: Any) -> None:
        """Accept it."""

    def pinned(self, _: Any) -> "OneProgram":
        """The same."""
        return self

    def training_vector(self, *_: Any) -> Any:
        """Nothing."""

    identity = None


def test_a_learning_rate_may_fall_to_0_but_not_begin_there(study: Workspace) -> None:
    """A schedule may end at 0, which the setting itself may not be; a whole number may not."""
    checked(
        study,
        "callback=schedule",
        SCHEDULE.format("learning_rate: {shape: cosine, initial: 1e-3}"),
    )
    with pytest.raises(ConfigError, match="would set n_epochs=0"):
        checked(
            study, "callback=schedule", SCHEDULE.format("n_epochs: {shape: linear, initial: 9}")
        )


def test_compiled_algorithms_and_scripts_refuse_callbacks_by_name(study: Workspace) -> None:
    """What trains without calling a callback says so, with its name and that of the callback."""
    configuration, _ = composed(study, "callback=resets")
    assert isinstance(OneProgram(), BringsEnvironments)
    with pytest.raises(ConfigError, match="callback resets cannot act with algorithm="):
        check_callbacks(configuration, OneProgram(), study)
    stopped, _ = composed(study, "budget.stop_at=100")
    with pytest.raises(ConfigError, match=r"budget\.stop_at cannot end algorithm="):
        check_callbacks(stopped, OneProgram(), study)
    with pytest.raises(ConfigError, match="callback resets cannot act with a training script"):
        refuse_callbacks(configuration, "a training script", "rlexp is not called")


def test_identity_holds_order_and_settings_and_nothing_without_callbacks(study: Workspace) -> None:
    """Another order, setting or class is another configuration; without callbacks it is the old one."""
    every = {
        words: composed(study, *words)[0].fingerprint
        for words in (
            (),
            ("callback=none",),
            ("callback=[resets,dormant_ratio]",),
            ("callback=[dormant_ratio,resets]",),
            ("callback=resets",),
            ("callback=resets", "callback.resets.every=7"),
            users("Counting", "most=1"),
            users("Kept", "most=1"),
        )
    }
    assert every[()] == every["callback=none",]
    assert "callback" not in composed(study)[0].parts()
    assert len(every) - 1 == len(set(every.values()))


def test_a_recorded_callback_becomes_words_again(study: Workspace) -> None:
    """The choices and settings that lead to a recorded configuration choose its callbacks, in order."""
    configuration, _ = composed(
        study,
        *("callback=[schedule,resets]", "callback.resets.every=7"),
        SCHEDULE.format("gamma: {shape: linear, initial: 1, final: 0.9}"),
    )
    words = words_of(configuration, study)
    assert ("schedule", "resets") == words.options["callback"]
    assert words.settings["callback.resets.every"] == 7
    assert configuration.fingerprint == composed(study, *words.overrides())[0].fingerprint


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (users("Counting", "most=1"), "does not say whether it depends on the length of training"),
        (users("Kept", "most=1"), None),
        (("callback=resets",), None),
        (
            ("callback=schedule", SCHEDULE.format("gamma: {shape: cosine, initial: 1}")),
            "callback schedule depends on the length of training",
        ),
        (("callback=schedule", SCHEDULE.format("gamma: {shape: constant, initial: 1}")), None),
        (("callback=adaptive_rollout_length",), "depends on the length of training"),
    ],
)
def test_longer_runs_need_callbacks_that_do_not_depend_on_the_length(
    words: tuple[str, ...], reason: str | None, study: Workspace
) -> None:
    """`rlexp extend` refuses a callback that depends on the length, or does not say it."""
    obstacle = length_obstacle(composed(study, *words)[0], study)
    assert (reason is None) == (obstacle is None)
    assert (reason or "") in (obstacle or "")


def test_learners_without_values_are_refused_beside_level_replay(study: Workspace) -> None:
    """Level replay scores by a value function; the error names algorithms that have one."""
    words = ("environment=taxi", "component=levels", "environment.name=levels", "teacher=plr")
    configuration, algorithm = composed(study, *words, "algorithm=dqn")
    with pytest.raises(ConfigError, match=r"teacher=plr .*DQN does not have: use algorithm=ppo"):
        check_callbacks(configuration, algorithm, study)
    check_callbacks(*composed(study, *words, "algorithm=a2c"), study)


def test_plans_say_what_never_acts_and_what_keeps_no_state(study: Workspace) -> None:
    """A callback or teacher that begins after the last step is named, and a class without a state."""
    words = (
        *("callback=resets", "budget.steps=5000", *users("Counting", "most=1")),
        *("environment=cartpole_contexts", "teacher=alp_gmm", "environment.vector.count=25"),
        "environment.components.teacher.shared=null",
    )
    configuration, _ = composed(study, *words)
    spec = configuration.spec(Phase.TEST, 0, 0)
    assert plan_remarks([configuration], [spec], study) == (
        "callback resets never acts: it begins after 100,000 steps, and there are 5,000",
        (
            "callback mine keeps no state (Counting has no state_dict() and load_state_dict()): a run "
            "that is killed begins anew"
        ),
        "component teacher never acts: it begins after 250 steps, and there are 200",
    )
    assert () == plan_remarks([configuration], [], study)
    one, _ = composed(study, *words[:-1])
    remarks = plan_remarks([one], [one.spec(Phase.TEST, 0, 0)], study)
    # One teacher for the run hears of the episodes of all its environments.
    assert not any("teacher" in remark for remark in remarks)


@pytest.mark.parametrize(("steps", "acts"), [(64, False), (65, True)])
def test_plans_say_that_level_replay_never_acts_within_one_rollout(
    steps: int, acts: bool, study: Workspace
) -> None:
    """Levels have scores from the second rollout on: a run of one rollout plays new levels only."""
    words = (
        *("environment=taxi", "component=levels", "environment.name=levels", "teacher=plr"),
        *("algorithm=ppo", "algorithm.n_steps=16", "environment.vector.count=4"),
        f"budget.steps={steps}",
    )
    configuration, _ = composed(study, *words)
    remarks = plan_remarks([configuration], [configuration.spec(Phase.TEST, 0, 0)], study)
    expected = "component teacher never acts: it begins after 64 steps, and there are 64"
    assert remarks == (() if acts else (expected,))


@pytest.mark.parametrize("teacher", ["alp_gmm", "success_rate"])
def test_a_teacher_for_each_environment_is_no_state_to_extend(
    teacher: str, study: Workspace
) -> None:
    """`rlexp extend` says in words why runs of older definitions have no state, and what has one."""
    words = ("environment=cartpole_contexts", f"teacher={teacher}")
    old = composed(study, *words, "environment.components.teacher.shared=null")[0]
    with pytest.raises(ConfigError) as refused:
        check_replay([old], [0], study, "start a fresh run")
    assert f"each environment has a teacher={teacher} of its own" in str(refused.value)
    assert "environment.components.teacher.shared=true" in str(refused.value)
    assert teacher_obstacle(composed(study, *words)[0], study) is None
