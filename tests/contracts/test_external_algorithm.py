"""The algorithm and the task of training scripts: settings, files, identity."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from last_words import last_words
from members import member

from rlexp.app.execution.checks.compatibility import check_compatibility
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.spec import RunSpec


@pytest.fixture(autouse=True)
def _study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace with two scripts and a file of settings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("one")
    (tmp_path / "net.yaml").write_text("two")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "loss.py").write_text("three")


def external(**settings: Any) -> Any:
    """The external algorithm with these settings."""
    return member("algorithm", "external", **{"command": "python train.py", **settings})


def digest(text: str) -> str:
    """The sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def configuration(*words: str) -> Configuration:
    """The composed configuration of overrides."""
    base_words = ("algorithm=external", "algorithm.command='python train.py'", "experiment=x")
    (composed_configuration,) = read_request(
        last_words(*base_words, *words), Workspace.here()
    ).experiment.configurations
    return composed_configuration


def spec(*words: str) -> RunSpec:
    """The spec of the first run of these overrides."""
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
def test_files_are_those_of_the_command_or_listed(
    settings: dict[str, Any], names: list[str]
) -> None:
    """The files of a run are the listed ones, or else those that its command names."""
    assert names == list(external(**settings).files)


def test_a_program_by_its_absolute_path_is_no_file_of_the_run(tmp_path: Path) -> None:
    """The program of a command is no file of the run, but a script with an absolute path is one."""
    script = str(tmp_path / "train.py")
    assert [script] == list(external(command=f"/bin/sh {script}").files)


def test_an_edited_script_is_another_run() -> None:
    """The sha256 of a script is part of the identity of a run."""
    first = spec()
    assert {"train.py": digest("one")} == first.algorithm["files"]
    Path("train.py").write_text("edited")
    assert first.id != spec().id
    Path("train.py").write_text("one")
    assert first.id == spec().id


def test_recorded_sums_are_kept() -> None:
    """A run keeps the recorded sums of its files, and refuses files that changed."""
    algorithm = external(files={"train.py": digest("other")})
    with pytest.raises(RecordError, match=r"train\.py changed since the run was asked for"):
        algorithm.check_files()
    external(files={"train.py": digest("one")}).check_files()


@pytest.mark.parametrize(
    ("settings", "message"),
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
def test_mistakes_are_found_before_anything_starts(settings: dict[str, Any], message: str) -> None:
    """A mistake in the settings raises a ConfigError with its reason."""
    with pytest.raises(ConfigError) as error_info:
        external(**settings)
    assert message in str(error_info.value)


def test_runs_have_the_name_that_was_given() -> None:
    """Folders and labels show the set name instead of `external`."""
    assert spec("algorithm.name=my_ppo").name.startswith("my_ppo-test-0-")
    assert "my_ppo" == configuration("algorithm.name=my_ppo").label


@pytest.mark.parametrize(
    "command", ["python t.py --a=1,2 {seed} 'it is' \\x", "{python} t.py", "'python t.py {seed}'"]
)
def test_a_command_is_plain_text(command: str) -> None:
    """Special characters of Hydra are plain text; quotes around all of it are removed."""
    words = ["algorithm=external", f"algorithm.command={command}"]
    (parsed_configuration,) = read_request(words, Workspace.here()).experiment.configurations
    assert command.removeprefix("'").removesuffix("'") == parsed_configuration.algorithm["command"]


def test_settings_are_free() -> None:
    """The settings of a script may have any name, and can be varied in a grid."""
    words = ["algorithm=external", "algorithm.command=x", "algorithm.settings.lr=1e-3,1e-4"]
    request = read_request(words, Workspace.here())
    labels = [c.label for c in request.experiment.configurations]
    assert ["external lr=0.001", "external lr=0.0001"] == labels


def test_only_a_script_can_make_its_task() -> None:
    """An external task has a name and scores, and only algorithm=external accepts it."""
    Path("train.py").write_text("# Writes to RLEXP_RESULTS.")
    words = ("environment=external", "environment.name=my-robot")
    script_configuration = configuration(*words, "environment.reference.minimum=0.0")
    check_compatibility([script_configuration], Workspace.here())
    assert ("my-robot", 0.0) == (
        script_configuration.task,
        script_configuration.reference["minimum"],
    )
    (default_configuration,) = read_request([*words], Workspace.here()).experiment.configurations
    with pytest.raises(ConfigError, match="only a script can train on my-robot"):
        check_compatibility([default_configuration], Workspace.here())


def test_components_are_refused() -> None:
    """Components are refused, because a script makes its own environments."""
    with pytest.raises(ConfigError, match="component=sticky_actions wraps environments"):
        check_compatibility([configuration("component=sticky_actions")], Workspace.here())


def test_commands_of_foreign_records_are_not_executed() -> None:
    """A command from stored records needs permission; a command that a user typed does not."""
    stored_configuration = configuration()
    with pytest.raises(RecordError, match=r"python train\.py") as error_info:
        check_imports([stored_configuration], (), ["rlexp", "resume", "x"])
    assert str(error_info.value).endswith("rlexp resume x --allow-import external")
    check_imports([stored_configuration], ("external",), [])
    check_imports([stored_configuration], (), [], trusted=[stored_configuration])


def test_a_text_that_only_a_file_puts_into_a_command_is_not_trusted() -> None:
    """A stored command with another script is refused, unless a search may choose that script."""
    words = (
        "algorithm.command='python {settings.script}'",
        "++algorithm.settings.script=train.py",
    )
    typed_configuration = configuration(*words)
    stored_configuration = replace(
        typed_configuration,
        algorithm={**typed_configuration.algorithm, "settings": {"script": "evil.py"}},
    )
    with pytest.raises(RecordError, match=r"evil\.py.*--allow-import external"):
        check_imports(
            [stored_configuration], (), ("rlexp", "sweep"), trusted=[typed_configuration]
        )
    choices = [("algorithm.settings.script", "evil.py")]
    check_imports(
        [stored_configuration],
        (),
        ("rlexp", "sweep"),
        trusted=[typed_configuration],
        chosen=choices,
    )
    check_imports([typed_configuration], (), ("rlexp", "sweep"), trusted=[typed_configuration])


def test_a_unit_is_part_of_the_identity_only_where_it_is_declared() -> None:
    """`environment.unit=tokens` is another run; the unit null is hashed as if it were absent."""
    first, tokens = spec(), spec("environment.unit=tokens")
    assert (None, "tokens") == (first.environment["unit"], tokens.environment["unit"])
    assert first.id != tokens.id
    without = {k: v for k, v in first.environment.items() if k != "unit"}
    assert first.id == RunSpec.from_plain({**first.plain(), "environment": without}).id


def test_configurations_of_one_experiment_have_one_unit() -> None:
    """A grid over units is refused with both units, before anything trains."""
    with pytest.raises(ConfigError, match=r"in tokens \(.*\) and in episodes \(.*\).*never mixed"):
        read_request(
            last_words(
                *("algorithm=external", "algorithm.command='python train.py'"),
                "environment.unit=tokens,episodes",
            ),
            Workspace.here(),
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["environment.unit=tokens"], r"environment\.unit=tokens: only a training script"),
        (
            [
                "environment=deep_sea_treasure",
                "environment.reference_point={treasure: 0, time: -50}",
            ],
            r"environment\.reference_point=.*: only a training script",
        ),
    ],
)
def test_only_scripts_declare_units_and_fronts(words: list[str], message: str) -> None:
    """An algorithm of rlexp is refused with them, and the message names external trainers."""
    request = read_request(["algorithm=ppo", *words], Workspace.here())
    with pytest.raises(ConfigError, match=message):
        check_compatibility(request.experiment.configurations, Workspace.here())


FRONT = ("environment=deep_sea_treasure", "environment.reference_point={treasure: 0, time: -50}")


def test_a_front_is_scored_by_one_of_its_measures() -> None:
    """A front has no return: its score names a measure, and its task is that of all weights."""
    scored = configuration(*FRONT, "budget.score=hypervolume")
    assert "deep-sea-treasure-v0(front)" == scored.task
    with pytest.raises(ConfigError, match=r"budget\.score=hypervolume"):
        check_compatibility([configuration(*FRONT)], Workspace.here())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["environment.reference_point={treasure: 0}"], "two objectives or more"),
        (["environment.reference_point={treasure: 0, time: inf}"], "time=inf must be a finite"),
        (
            ["environment.reference_point={treasure: 0, fuel: 1}"],
            "the objectives are treasure, time",
        ),
    ],
)
def test_a_reference_point_has_a_number_for_each_objective(words: list[str], message: str) -> None:
    """A point without numbers, or of other objectives, is refused on one line."""
    with pytest.raises(ConfigError, match=message):
        configuration("environment=deep_sea_treasure", *words)
