"""Targets and environment variables: which classes may be imported, which values filled in."""

import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from changing import DEFAULT, apply_changes, refusal
from quick_parts import quick_yaml
from samples import write_tree

from rlexp.config.secret_check import fill_variables, has_variable
from rlexp.config.validate import build, load_target, validate
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_yaml)

PLUG_IN = """
from dataclasses import dataclass

@dataclass(frozen=True, kw_only=True)
class Mine:
    size: int
    text: str = "x"

class Plain:
    pass

def function():
    pass
"""


@pytest.fixture
def settings() -> dict[str, Any]:
    """A copy of the default configuration, for changes."""
    return deepcopy(DEFAULT.plain)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an importable package with a plug-in."""
    name = "sample_package"
    files = {
        "__init__.py": PLUG_IN,
        "broken.py": "def (",
        "failing.py": "raise RuntimeError('x\\ny')",
    }
    write_tree(tmp_path / name, files)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "subprocess.Popen",
        "rlexp.store.layout.Layout",
        "rlexp.agents.mlp.MLP",
        "rlexp.algorithmsx.ppo.PPO",
        "builtins.eval",
        "",
        ".",
        None,
        5,
        ["rlexp.algorithms.ppo.PPO"],
    ],
)
def test_a_target_outside_the_group_is_refused(settings: dict[str, Any], target: object) -> None:
    """A target outside the packages of its group is never imported."""
    message = refusal(settings, **{"algorithm._target_": target})
    assert f"algorithm._target_={target!r} is not allowed: it must start with" in message
    assert "--allow-import" in message


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("rlexp.algorithms.ppo.PPOO", "cannot be imported: AttributeError"),
        ("rlexp.algorithms.pppo.PPO", "cannot be imported: ModuleNotFoundError"),
        ("rlexp.algorithms.", "cannot be imported"),
        ("rlexp.algorithms..ppo.PPO", "cannot be imported"),
        ("rlexp.algorithms.library.construct", "is not a plug-in: write the path of a dataclass"),
        ("rlexp.algorithms.ppo.TYPE_CHECKING", "is not a plug-in: write the path of a dataclass"),
    ],
)
def test_a_target_that_is_no_plug_in_is_refused(
    settings: dict[str, Any], target: str, message: str
) -> None:
    """A target that is no plug-in is refused in one line, whatever its import raises."""
    assert message in refusal(settings, **{"algorithm._target_": target})


def test_allowed_package_provides_plug_ins(settings: dict[str, Any], package: str) -> None:
    """Dataclasses of an allowed package are plug-ins."""
    settings["agent"] = {"_target_": f"{package}.Mine", "size": 3}
    with pytest.raises(ConfigError, match="is not allowed"):
        validate(settings)
    _, parts = validate(settings, [package])
    assert (3, "x", package) == (parts.agent.size, parts.agent.text, type(parts.agent).__module__)


def test_allowed_package_is_matched_by_its_whole_name(package: str) -> None:
    """Allowing `sample` does not allow `sample_package`."""
    with pytest.raises(ConfigError, match="is not allowed"):
        load_target(f"{package}.Mine", "agent", [package.removesuffix("_package")])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken.Mine", "cannot be imported: SyntaxError"),
        ("failing.Mine", "cannot be imported: RuntimeError: x y"),
        ("missing.Mine", "cannot be imported: ModuleNotFoundError"),
        ("Plain", "is not a plug-in"),
        ("function", "is not a plug-in"),
    ],
)
def test_import_error_is_reported_in_one_line(package: str, name: str, message: str) -> None:
    """An exception in the package of a target is shown in one line."""
    with pytest.raises(ConfigError, match=message) as error_info:
        load_target(f"{package}.{name}", "agent", [package])
    assert "\n" not in str(error_info.value)


def test_plug_in_of_another_package_is_validated(package: str) -> None:
    """Wrong types and unknown keys of a user's plug-in are reported together."""
    values = {"_target_": f"{package}.Mine", "size": "x", "txt": "y"}
    with pytest.raises(ConfigError) as error_info:
        build(values, "agent", [package])
    assert {
        'agent.size="x": must be an integer',
        "unknown key 'agent.txt'; did you mean 'text'? (there are: size, text)",
    } == set(str(error_info.value).split("; ", 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${oc.env:SAMPLE}", "value"),
        ("a ${oc.env:SAMPLE} b ${oc.env:SAMPLE}", "a value b value"),
        ("${oc.env:NOT_SET,default}", "default"),
        ("${oc.env:NOT_SET,}", ""),
        ("${oc.env:NOT_SET,null}", None),
        ("${oc.env:SAMPLE,null}", "value"),
        ("SAMPLE", "SAMPLE"),
        (5, 5),
        (None, None),
        (["${oc.env:SAMPLE}", {"a": "${oc.env:SAMPLE}"}], ["value", {"a": "value"}]),
    ],
)
def test_environment_variables_are_filled_in(
    monkeypatch: pytest.MonkeyPatch, text: object, expected: object
) -> None:
    """Variables are replaced in texts, lists and mappings."""
    monkeypatch.setenv("SAMPLE", "value")
    assert expected == fill_variables(text)


def test_unset_variable_is_refused(settings: dict[str, Any]) -> None:
    """The error for an unset variable names it and says how to write a default."""
    with pytest.raises(
        ConfigError, match="variable NOT_SET is not set: set it, or write a default value"
    ):
        validate(apply_changes(settings, {"environment.id": "${oc.env:NOT_SET}"}))


def test_invalid_secret_is_masked(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error for an invalid secret names the key and masks the value."""
    monkeypatch.setenv("SAMPLE_TOKEN", "hunter2-hunter2")
    message = refusal(settings, **{"algorithm.n_steps": "${oc.env:SAMPLE_TOKEN}"})
    assert 'algorithm.n_steps="********": must be an integer' == message


def test_values_with_variables_are_recognised() -> None:
    """Only a text with `${oc.env:…}` has a variable."""
    result = [has_variable(value) for value in ("x ${oc.env:A} y", "${oc.env:A,b}", "A", 5, None)]
    assert [True, True, False, False, False] == result
