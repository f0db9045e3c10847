"""Properties of every component, tested on every yaml that names one."""

import re
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.environments import MEASURES, Stage
from rlexp.environments.composed import ComposedTask, at_stage
from rlexp.errors import ConfigError
from rlexp.training.environments.episode_log import digest

CONF = Path(__file__).parents[2] / "conf"
CONSTRAINED = "constraints={far: {entry: 0, above: 1.0}}"
NEEDED_WORDS = {
    "action_noise": ["environment=pendulum"],
    "constraints_as_terminations": [
        f"environment.components.constraints_as_terminations.{CONSTRAINED}"
    ],
    "jump_start": ["environment.components.jump_start.guide=runs/guide/run"],
    "levels": ["environment=taxi"],
    "shaping": ["environment.components.shaping.terms=[{weight: 1.0, entry: 0, power: 2}]"],
    "catastrophe": ["environment.components.catastrophe.below=10"],
    "safety": [f"environment.components.safety.{CONSTRAINED}"],
    "snapshots": ["environment.components.snapshots.guide=runs/guide/run"],
}
"""Words that a component needs, if it cannot be used on CartPole without them."""
COMPONENTS = sorted(path.stem for path in (CONF / "component").glob("*.yaml"))
DECLARING_ENVIRONMENTS = sorted(
    path.stem
    for path in (CONF / "environment").glob("*.yaml")
    if re.search(r"^components:", path.read_text(), re.MULTILINE)
)
"""Environments that declare components themselves."""
CASES = {
    **{
        name: [f"component={name}", *NEEDED_WORDS.get(name, [])]
        for name in COMPONENTS
        if name != "none"
    },
    **{f"environment {name}": [f"environment={name}"] for name in DECLARING_ENVIRONMENTS},
}
GUIDED_COMPONENTS = ("jump_start", "snapshots")
"""Components that need a completed run, which only their own tests have."""
PLAYED_CASES = [case for case in CASES if case not in GUIDED_COMPONENTS]
STEPS = 40


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a temporary folder, because MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


@cache
def configuration_of(case: str) -> dict[str, Any]:
    """The configuration of a case without changes."""
    (composed,) = compose(CASES[case], Path("/nowhere"))
    return composed.plain


@cache
def composed_task(case: str) -> ComposedTask:
    """The composed task of a case; skips the test if packages are missing."""
    environment = validate(configuration_of(case))[1].environment
    assert isinstance(environment, ComposedTask)
    try:
        environment.make().close()
    except ConfigError as error:
        if "pip install" in str(error):
            pytest.skip(str(error))
        raise
    return environment


def results_of(environment: Any, seed: int, steps: int = STEPS) -> Iterator[Any]:
    """The results of each reset and step, with actions that depend on the seed."""
    with closing(environment):
        if environment.has_wrapper_attr("deal"):
            environment.get_wrapper_attr("deal")(0, 1)
        environment.action_space.seed(seed)
        yield environment.reset(seed=seed)[0]
        for _ in range(steps):
            observation, reward, terminated, truncated, info = environment.step(
                environment.action_space.sample()
            )
            yield observation, float(reward), terminated, truncated, info.get(MEASURES, {})
            if terminated or truncated:
                yield environment.reset()[0]


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("case", PLAYED_CASES)
def test_same_seed_gives_the_same_episodes(case: str, stage: Stage) -> None:
    """Equal seeds give equal episodes at every stage, with observations of the declared space."""
    task = at_stage(composed_task(case), stage)
    first, second = (list(results_of(task.make(), seed=3)) for _ in range(2))
    assert list(map(digest, first)) == list(map(digest, second))
    space = task.make().observation_space
    assert all(space.contains(result) for result in first if not isinstance(result, tuple))


@pytest.mark.parametrize("case", PLAYED_CASES)
def test_spaces_are_the_same_at_every_stage(case: str) -> None:
    """Spaces are equal at every stage, because one policy plays at all of them."""
    environments = [at_stage(composed_task(case), stage).make() for stage in Stage]
    assert 1 == len({str(environment.observation_space) for environment in environments})
    assert all(
        environment.observation_space == environments[0].observation_space
        for environment in environments
    )
    assert all(
        environment.action_space == environments[0].action_space for environment in environments
    )


@pytest.mark.parametrize("case", PLAYED_CASES)
def test_components_do_not_change_later_environments(case: str) -> None:
    """The task without components plays the same before and after components were used."""
    task = composed_task(case)
    before = [digest(result) for result in results_of(task.environment.make(), seed=5)]
    for stage in Stage:
        list(results_of(at_stage(task, stage).make(), seed=7))
    assert before == [digest(result) for result in results_of(task.environment.make(), seed=5)]


@pytest.mark.parametrize("case", PLAYED_CASES)
def test_numbers_of_an_episode_are_finite(case: str) -> None:
    """Measures have names, are finite, and come only at the end of an episode."""
    environment = at_stage(composed_task(case), Stage.EVALUATION).make()
    steps = [
        result
        for result in results_of(environment, seed=1, steps=300)
        if isinstance(result, tuple)
    ]
    for _, _, terminated, truncated, measures in steps:
        assert (terminated or truncated) or not measures
        assert all(type(value) is float and np.isfinite(value) for value in measures.values())


@pytest.mark.parametrize("case", CASES)
def test_bad_settings_are_refused_in_one_line(case: str) -> None:
    """Unknown settings, and values of wrong types, are refused in one line."""
    for name, component in configuration_of(case)["environment"]["components"].items():
        for key in ("no_such_setting", *component):
            if key == "_target_":
                continue
            invalid = deepcopy(configuration_of(case))
            invalid["environment"]["components"][name][key] = {"no": {"such": "value"}}
            with pytest.raises(ConfigError) as caught:
                validate(invalid)
            assert 1 == len(str(caught.value).splitlines())
            assert f"environment.components.{name}" in str(caught.value)


@pytest.mark.parametrize("name", DECLARING_ENVIRONMENTS)
def test_scores_of_another_task_have_another_name(name: str) -> None:
    """A task with other episodes than those of its id has another name."""
    task = composed_task(f"environment {name}")
    assert task.task not in gym.registry
    assert task.reference.threshold is None
