"""The algorithm and the task of training scripts: settings, files, identity."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from members import member

from rlexp.app.execution.compatibility import check_fit
from rlexp.app.execution.import_permission import check_imports
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.spec import RunSpec


@pytest.fixture(autouse=True)
def _study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study with two files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("one")
    (tmp_path / "net.yaml").write_text("two")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "loss.py").write_text("three")


def external(**settings: Any) -> Any:
    """The algorithm, with settings."""
    return member("algorithm", "external", **{"command": "python train.py", **settings})


def digest(text: str) -> str:
    """The sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def configuration(*words: str) -> Configuration:
    """The configuration that words lead to."""
    given = ("algorithm=external", "algorithm.command='python train.py'", "experiment=x")
    (found,) = read_request([*given, *words], Workspace.here()).experiment.configurations
    return found


def spec(*words: str) -> RunSpec:
    """A run of that configuration."""
    request = read_request(
        ["algorithm=external", "algorithm.command='python train.py'", *words], Workspace.here()
    )
    return request.specs()[0]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["train.py"]),
        ({"command": "python train.py --net=net.yaml"}, ["net.yaml", "train.py"]),
        ({"command": "python -m code.loss"}, ["code/loss.py"]),
        ({"command": "{python} -u ./train.py"}, ["./train.py"]),
        ({"command": "julia main.jl"}, []),
        (
            {"command": "python train.py --net={settings.net}", "settings": {"net": "net.yaml"}},
            ["net.yaml", "train.py"],
        ),
        ({"files": ["code/*.py", "net.yaml"]}, ["code/loss.py", "net.yaml"]),
        ({"files": []}, []),
    ],
)
def test_files_are_those_of_the_command_or_as_asked(
    settings: dict[str, Any], names: list[str]
) -> None:
    """A script that is named is part of what defines a run, without being asked for."""
    assert names == list(external(**settings).files)


def test_a_program_by_its_absolute_path_is_no_file_of_the_run(tmp_path: Path) -> None:
    """It is the machine's; a script by its absolute path is the user's."""
    script = str(tmp_path / "train.py")
    assert [script] == list(external(command=f"/bin/sh {script}").files)


def test_an_edited_script_is_another_run() -> None:
    """Its sum is part of the identity; back as it was, it is the same run again."""
    first = spec()
    assert {"train.py": digest("one")} == first.algorithm["files"]
    Path("train.py").write_text("edited")
    assert first.id != spec().id
    Path("train.py").write_text("one")
    assert first.id == spec().id


def test_sums_that_are_known_are_kept() -> None:
    """A run from its records is not the run of what lies there now, and says so."""
    known = external(files={"train.py": digest("other")})
    with pytest.raises(RecordError, match=r"train\.py changed since the run was asked for"):
        known.check_files()
    external(files={"train.py": digest("one")}).check_files()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"command": "python train.py {sed}"}, "no placeholder {sed}; did you mean 'seed'?"),
        (
            {"command": "python train.py {settings.lr}", "settings": {"learning_rate": 1}},
            "no placeholder {settings.lr}; did you mean 'settings.learning_rate'?",
        ),
        ({"command": "python train.py {seed"}, "'{seed' has a single brace"),
        ({"command": "python 'train.py"}, "cannot be read: No closing quotation"),
        ({"command": " "}, "algorithm.command is empty"),
        ({"name": "my-ppo"}, "algorithm.name='my-ppo' is not a valid name"),
        ({"files": ["trian.py"]}, "'trian.py' matches no file"),
        ({"files": ["src/*.py"]}, "'src/*.py' matches no file"),
    ],
)
def test_mistakes_are_found_before_anything_starts(settings: dict[str, Any], told: str) -> None:
    """Each in one line."""
    with pytest.raises(ConfigError) as caught:
        external(**settings)
    assert told in str(caught.value)


def test_runs_have_the_name_that_was_given() -> None:
    """Folders and labels show it, not the word `external`."""
    assert spec("algorithm.name=my_ppo").name.startswith("my_ppo-test-0-")
    assert "my_ppo" == configuration("algorithm.name=my_ppo").label


@pytest.mark.parametrize(
    "command", ["python t.py --a=1,2 {seed} 'it is' \\x", "{python} t.py", "'python t.py {seed}'"]
)
def test_a_command_is_taken_as_it_stands(command: str) -> None:
    """What Hydra would read into it, or refuse, is text; quotes around all of it are Hydra's."""
    words = ["algorithm=external", f"algorithm.command={command}"]
    (own,) = read_request(words, Workspace.here()).experiment.configurations
    assert command.removeprefix("'").removesuffix("'") == own.algorithm["command"]


def test_settings_are_free() -> None:
    """Any name goes, without a plus, and a grid varies it."""
    words = ["algorithm=external", "algorithm.command=x", "algorithm.settings.lr=1e-3,1e-4"]
    request = read_request(words, Workspace.here())
    labels = [c.label for c in request.experiment.configurations]
    assert ["external lr=0.001", "external lr=0.0001"] == labels


def test_only_a_script_can_make_its_task() -> None:
    """A task that Gymnasium lacks has a name and known scores; no other algorithm can learn it."""
    words = ("environment=external", "environment.name=my-robot")
    own = configuration(*words, "environment.reference.minimum=0.0")
    check_fit([own], Workspace.here())
    assert ("my-robot", 0.0) == (own.task, own.reference["minimum"])
    (other,) = read_request([*words], Workspace.here()).experiment.configurations
    with pytest.raises(ConfigError, match="only a script can train on my-robot"):
        check_fit([other], Workspace.here())


def test_components_are_refused() -> None:
    """A script makes its own environments: what is put around ours would not be there."""
    with pytest.raises(ConfigError, match="component=sticky_actions is put around environments"):
        check_fit([configuration("component=sticky_actions")], Workspace.here())


def test_commands_of_foreign_records_are_not_executed() -> None:
    """What only files under runs/ name needs the user's word; what was typed does not."""
    found = configuration()
    with pytest.raises(RecordError, match=r"python train\.py") as caught:
        check_imports([found], (), ["rlexp", "resume", "x"])
    assert str(caught.value).endswith("rlexp resume x --allow-import external")
    check_imports([found], ("external",), [])
    check_imports([found], (), [], trusted=[found])


def test_a_text_that_only_a_file_puts_into_a_command_is_not_trusted() -> None:
    """The same template with another script is refused, but for one that a search may choose."""
    words = (
        "algorithm.command='python {settings.script}'",
        "++algorithm.settings.script=train.py",
    )
    asked = configuration(*words)
    (stored,) = (replace(asked, algorithm={**asked.algorithm, "settings": {"script": "evil.py"}}),)
    with pytest.raises(RecordError, match=r"evil\.py.*--allow-import external"):
        check_imports([stored], (), ("rlexp", "sweep"), trusted=[asked])
    chosen = [("algorithm.settings.script", "evil.py")]
    check_imports([stored], (), ("rlexp", "sweep"), trusted=[asked], chosen=chosen)
    check_imports([asked], (), ("rlexp", "sweep"), trusted=[asked])
