"""The page about components has working commands, true defaults and a working example."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest
import yaml
from last_words import last_words
from pasted_commands import pasted

from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.components.guides import final_weights, load_guide
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.store.layout import Layout, RunPaths
from rlexp.store.runs import read_spec
from rlexp.store.schemas import SPEC

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "components.md").read_text()
BLOCK = re.compile(r"^```(?P<kind>[^\n]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| ", re.MULTILINE)
CODE = re.compile(r"`(rlexp run [^`]+)`")


def blocks(kind: str) -> list[str]:
    """The page's code blocks of a kind, in order."""
    return [match["text"] for match in BLOCK.finditer(PAGE) if match["kind"] == kind]


COMMANDS = [
    line
    for line in [*"".join(blocks("bash")).splitlines(), *CODE.findall(PAGE)]
    if line.startswith("rlexp run ")
]


def trains_a_guide(command: str) -> bool:
    """Whether a command trains the policy that other commands of the page name."""
    return bool(re.fullmatch(r"experiment=\w*guide", shlex.split(command)[-1]))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the guides of the page were trained for a short time."""
    folder = tmp_path_factory.mktemp("study")
    guides = [shlex.split(command) for command in COMMANDS if trains_a_guide(command)]
    assert 3 == len(guides)
    rollout = ("environment.vector.count=1", "algorithm.n_steps=64", "algorithm.batch_size=64")
    short_training = ("budget.steps=64", "budget.final_episodes=1", *rollout, "-q")
    for arguments in guides:
        process = pasted(shlex.join(last_words(*arguments, *short_training)), folder)
        assert 0 == process.returncode, process.stdout + process.stderr
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page_compose(
    command: str, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting exists, every value is allowed, and each environment can be built."""
    monkeypatch.chdir(study)
    workspace = Workspace(study, Layout(study / "runs"))
    request = read_request(shlex.split(command)[2:], workspace)
    assert len(request.specs()) >= (1 if trains_a_guide(command) else 5)
    for configuration in request.experiment.configurations:
        content = {**configuration.environment, "reference": {}}
        build(content, "environment").make().close()


def test_a_changed_guide_is_refused(study: Path, tmp_path: Path) -> None:
    """A guide whose weights or spec.json differ from the pinned ones is refused."""
    (run,) = (study / "runs" / "guide").glob("ppo*")
    guide = Path(shutil.copytree(run, tmp_path / "guide"))
    pinned = final_weights(str(guide), "jump_start")
    environment = gym.make("CartPole-v1")
    load_guide(str(guide), pinned, environment, "jump_start")
    spec = read_spec(RunPaths(guide))
    spec = replace(spec, agent={**spec.agent, "activation": "relu"})
    content = {**SPEC.head(), "id": spec.id, **spec.plain()}
    (guide / "spec.json").write_text(json.dumps(content))
    assert final_weights(str(guide), "jump_start").startswith(f"{pinned}++")
    with pytest.raises(ConfigError, match=r"spec\.json is not what it was: put it back, or set"):
        load_guide(str(guide), pinned, environment, "jump_start")


def test_there_are_commands_and_ready_experiments() -> None:
    """The page has the commands and benchmarks that the other tests of this file need."""
    assert 8 <= sum("+benchmark=" not in command for command in COMMANDS)
    assert 8 <= sum("+benchmark=" in command for command in COMMANDS)


@pytest.mark.parametrize(
    "name",
    [
        "sticky_actions",
        "observation_noise",
        "action_noise",
        "observation_delay",
        "action_delay",
        "time_limit_awareness",
        "shaping",
        "constraints_as_terminations",
        "safety",
        "catastrophe",
        "jump_start",
        "snapshots",
    ],
)
def test_settings_are_explained_with_their_defaults(name: str) -> None:
    """Each setting has a row in its section, with the default of the YAML file."""
    section = re.split(rf"^## (?=.*\b{name}\b)", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    rows = dict(ROW.findall(section.partition("| setting |")[2]))
    settings = yaml.safe_load((ROOT / "conf" / "component" / f"{name}.yaml").read_text())[name]
    del settings["_target_"]
    elsewhere = {"initial"} if name == "observation_delay" else set()
    assert settings.keys() == rows.keys() - elsewhere
    for setting, value in settings.items():
        defaults = re.findall(r"`([^`]+)`", rows[setting])
        if value == "???":
            assert "required" == rows[setting]
        elif not str(value).startswith("${"):
            assert value in [yaml.safe_load(text) for text in defaults]


def test_the_example_component_works(tmp_path: Path) -> None:
    """Written to an empty folder, the example works with the page's commands."""
    (source,), (settings,), (commands,) = blocks("python"), blocks("yaml"), blocks("bash own")
    (tmp_path / "my_components.py").write_text(source)
    (tmp_path / "conf" / "component").mkdir(parents=True)
    (tmp_path / "conf" / "component" / "clipped_rewards.yaml").write_text(settings)
    process = pasted(commands, tmp_path)
    assert 0 == process.returncode, process.stdout + process.stderr
    assert "component=clipped_rewards" in process.stdout
    assert "Traceback" not in process.stdout + process.stderr
