"""A recorded configuration becomes choices and settings that lead to it again."""

from dataclasses import replace
from pathlib import Path

import pytest
from finished_runs import study
from quick_parts import quick_parts

from rlexp.app.execution.configuration_words import words_of
from rlexp.app.execution.request import read_request
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import TARGET

quick = pytest.fixture(autouse=True)(quick_parts)

CONFIGURATIONS = {
    "defaults": [],
    "schedule": ["algorithm.learning_rate={shape:linear,initial:0.001}", "budget.steps=5000"],
    "components": ["component=[sticky_actions,action_noise]"],
    "gymnasium id": ["environment=gymnasium", "environment.id=Taxi-v3"],
    "contexts": ["environment=cartpole_contexts", "teacher=random"],
    "off-policy": [
        *("algorithm=sac", "environment=pendulum", "agent.network=[64,64]"),
        "algorithm.action_noise={kind:normal,sigma:0.1}",
    ],
    "benchmark": ["+benchmark=cartpole"],
    "environment": [
        *("environment=acrobot", "environment.arguments.render_fps=1", "compute.threads=2"),
        *("environment.max_episode_steps=200", "environment.vector.count=4"),
        *("environment.reference.threshold=3", "budget.evaluation_every=null"),
        "environment.wrappers=[{name: TimeAwareObservation, arguments: {}}]",
    ],
    "required setting": [
        "component=safety",
        "environment.components.safety.constraints={speed: {entry: 1, above: 0.5}}",
    ],
    "script": [
        *("algorithm=external", "algorithm.command='python train.py'"),
        *("environment=external", "environment.name=mine"),
    ],
}


def configuration(folder: Path, *overrides: str) -> Configuration:
    """The configuration of some overrides."""
    (only,) = read_request(overrides, study(folder)).experiment.configurations
    return only


@pytest.mark.parametrize("overrides", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_the_words_lead_to_the_same_configuration(tmp_path: Path, overrides: list[str]) -> None:
    """The words of a configuration compose it again, with its identity and reference scores."""
    recorded = configuration(tmp_path, *overrides)
    again = configuration(tmp_path, *words_of(recorded, study(tmp_path)).overrides())
    assert recorded.fingerprint == again.fingerprint
    assert recorded.reference == again.reference


def test_only_settings_that_differ_from_the_options_are_written(tmp_path: Path) -> None:
    """A setting with the value of its option is left out."""
    recorded = configuration(tmp_path, "environment=acrobot", "algorithm.gamma=0.9")
    words = words_of(recorded, study(tmp_path))
    assert {"algorithm.gamma": 0.9} == words.settings
    assert ("acrobot",) == words.options["environment"]


def test_an_option_of_the_workspace_is_preferred_by_its_name(tmp_path: Path) -> None:
    """Other options of the same class do not take the place of the option of its name."""
    folder = tmp_path / "conf" / "algorithm"
    folder.mkdir(parents=True)
    ppo = Path(__file__).parents[3] / "conf" / "algorithm" / "ppo.yaml"
    (folder / "a_ppo.yaml").write_text(ppo.read_text().replace("gamma: 0.99", "gamma: 0.5"))
    words = words_of(configuration(tmp_path), study(tmp_path))
    assert (("ppo",), {}) == (words.options["algorithm"], words.settings)


def test_a_class_without_an_option_is_refused(tmp_path: Path) -> None:
    """A configuration whose class no option names cannot be written as overrides."""
    recorded = configuration(tmp_path)
    moved = replace(recorded, agent={**recorded.agent, TARGET: "rlexp.agents.gone.Gone"})
    with pytest.raises(ConfigError, match="no option of agent names the class"):
        words_of(moved, study(tmp_path))


def test_options_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    """A recorded setting that the option no longer has is refused, and not left out."""
    recorded = configuration(tmp_path)
    older = replace(recorded, algorithm={**recorded.algorithm, "no_such_setting": 1})
    with pytest.raises(ConfigError, match="cannot be written as overrides") as caught:
        words_of(older, study(tmp_path))
    assert "\n" not in str(caught.value)


def test_another_environment_keeps_the_vector_and_what_was_searched(tmp_path: Path) -> None:
    """Overrides of a command replace the task and its settings, but not the learner's settings."""
    recorded = configuration(
        tmp_path,
        "environment.vector.count=4",
        "environment.max_episode_steps=100",
        "environment.arguments.sutton_barto_reward=true",
        "algorithm.gamma=0.9",
    )
    words = words_of(recorded, study(tmp_path))
    other = configuration(tmp_path, *words.before(["environment=acrobot"], ()))
    assert ("Acrobot-v1", 4, None) == (
        other.task,
        other.environment["vector"]["count"],
        other.environment["max_episode_steps"],
    )
    assert ({}, 0.9) == (other.environment["arguments"], other.algorithm["gamma"])
    kept = words.before(["environment=acrobot"], ("environment.max_episode_steps",))
    assert "environment.max_episode_steps=100" in kept


def test_another_agent_replaces_the_settings_of_the_agent(tmp_path: Path) -> None:
    """The layers of one agent are not settings of another agent."""
    words = words_of(configuration(tmp_path, "agent.network=[8]"), study(tmp_path))
    assert "agent.network=[8]" in words.before(["algorithm.gamma=0.5"], ())
    assert "agent.network=[8]" not in words.before(["agent=cnn"], ())
