"""Tasks inside components: the stage of each evaluation, measures, and identity."""

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import pytest
from trainings import TINY, RecordingListener, spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.environments import MEASURES, Stage
from rlexp.environments.composed import ComposedTask
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, Examined, RunEnded
from rlexp.training.parts import Training
from rlexp.training.training_run import train

SHORT = ("budget.steps=128", "budget.evaluation_every=64", "budget.final_episodes=10")
STICKY = "component=sticky_actions"


@dataclass(frozen=True)
class ReportsStage:
    """A component that measures its stage and its share of a list."""

    splits: bool
    value: float | None = None

    def wrap(self, environment: gym.Env[Any, Any], stage: Stage) -> gym.Env[Any, Any]:
        """Return the environment with measures of its stage."""
        return Teller(environment, list(Stage).index(stage) if self.value is None else self.value)


class Teller(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any], value: float) -> None:
        super().__init__(env)
        self.value, self.position, self.of = value, -1, -1

    def deal(self, position: int, of: int) -> None:
        """Store the position and the stride."""
        self.position, self.of = position, of

    def step(self, action: Any) -> Any:
        """Step, and report measures at the end of an episode."""
        result = self.env.step(action)
        if result[2] or result[3]:
            measures = result[4].setdefault(MEASURES, {})
            measures |= {"stage": self.value, "position": self.position, "of": self.of}
        return result


@cache
def _train_with(component: ReportsStage, phase: Phase = Phase.TEST) -> RecordingListener:
    plain_training = assemble(replace(spec_of(*TINY["ppo"], *SHORT), phase=phase))
    parts = {name: getattr(plain_training, name) for name in Training.__slots__}
    task = ComposedTask(plain_training.environment, {"reports_stage": component})
    with TemporaryDirectory(prefix="composed-") as folder:
        listener = RecordingListener(Path(folder))
        train(Training(**{**parts, "environment": task}), listener, Path(folder))
    return listener


def test_what_wrappers_measure_is_in_every_evaluation() -> None:
    """Every evaluation has the measures of wrappers, here the stage and the share of a list."""
    listener = _train_with(ReportsStage(splits=False))
    evaluations = [e for e in listener.events if isinstance(e, Evaluated)]
    evaluation = float(list(Stage).index(Stage.EVALUATION))
    assert [{evaluation}] * 3 == [set((e.measures or {})["stage"]) for e in evaluations]
    last_measures = evaluations[-1].measures or {}
    assert [0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] == sorted(last_measures["position"])
    assert {8.0} == set(last_measures["of"])
    assert not [e for e in listener.events if isinstance(e, Examined)]


def test_the_final_policy_is_examined_on_the_training_distribution() -> None:
    """An examination of ten episodes in distribution follows the final evaluation."""
    listener = _train_with(ReportsStage(splits=True))
    *_, final_evaluation, examination, end = listener.events
    assert isinstance(final_evaluation, Evaluated)
    assert final_evaluation.final
    assert isinstance(examination, Examined)
    assert ("in_distribution", 10) == (examination.distribution, len(examination.returns))
    assert {float(list(Stage).index(Stage.IN_DISTRIBUTION))} == set(
        (examination.measures or {})["stage"]
    )
    assert isinstance(end, RunEnded)
    assert end.step == examination.step


def test_a_measure_that_is_no_number_fails_the_run_and_is_no_score() -> None:
    """A measure that is NaN fails the run, and the reason names the step."""
    listener = _train_with(ReportsStage(splits=False, value=float("nan")))
    assert "measure stage is nan" in str(getattr(listener.events[-1], "reason", None))


def test_components_are_part_of_a_runs_identity_and_none_changes_nothing() -> None:
    """A component and its settings are part of a run's identity; an empty list is not."""
    plain_spec = spec_of(*TINY["ppo"])
    assert "components" not in plain_spec.environment
    sticky_spec = spec_of(*TINY["ppo"], STICKY)
    other_spec = spec_of(
        *TINY["ppo"], STICKY, "environment.components.sticky_actions.probability=0.1"
    )
    assert 3 == len({plain_spec.id, sticky_spec.id, other_spec.id})
    assert spec_of(*TINY["ppo"], "component=[sticky_actions]").id == sticky_spec.id


def test_the_order_of_components_is_part_of_a_runs_identity() -> None:
    """Two orders of the same components are two runs."""
    constraint = "environment.components.safety.constraints={far: {entry: 0, above: 1.0}}"
    safety_first = spec_of(*TINY["ppo"], "component=[safety,observation_noise]", constraint)
    noise_first = spec_of(*TINY["ppo"], "component=[observation_noise,safety]", constraint)
    assert safety_first.id != noise_first.id
    assert RunSpec.from_plain(json.loads(json.dumps(safety_first.plain()))).id == safety_first.id


@pytest.mark.parametrize(
    ("phase", "stage"), [(Phase.TEST, Stage.EVALUATION), (Phase.TUNING, Stage.IN_DISTRIBUTION)]
)
def test_what_is_held_out_is_for_test_runs_only(phase: Phase, stage: Stage) -> None:
    """Tuning runs are evaluated on the training distribution only."""
    listener = _train_with(ReportsStage(splits=True), phase)
    evaluations = [e for e in listener.events if isinstance(e, Evaluated)]
    expected = float(list(Stage).index(stage))
    assert [{expected}] * 3 == [set((e.measures or {})["stage"]) for e in evaluations]
    assert (phase is Phase.TEST) == any(isinstance(e, Examined) for e in listener.events)


@pytest.mark.parametrize("stage", list(Stage))
def test_a_composed_task_wraps_at_each_stage(stage: Stage) -> None:
    """A component that is part of the task acts in training, evaluation and examination."""
    task = assemble(spec_of(*TINY["ppo"], STICKY)).environment
    assert isinstance(task, ComposedTask)
    env = ComposedTask(task.environment, task.components, stage).make()
    assert "StickyEnvironment" in str(env)
    env.close()


def test_the_digest_of_a_guide_is_part_of_a_runs_identity() -> None:
    """A run with another guiding policy in the same folder has another identity."""
    words = ("component=jump_start", "environment.components.jump_start.guide=runs/x/y")
    digest = "environment.components.jump_start.weights="
    assert spec_of(*words, f"{digest}aa").id != spec_of(*words, f"{digest}bb").id
