"""Targets and variables: what may be imported, and what is filled in where it is used."""

import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from changing import DEFAULT, changed, refusal
from quick_parts import quick_yaml
from samples import write_tree

from rlexp.config.validate import build, load_target, validate
from rlexp.config.variables import fill_variables, has_variable
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
def plain() -> dict[str, Any]:
    """The default configuration, to be changed."""
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
def test_a_target_outside_the_group_is_refused(plain: dict[str, Any], target: object) -> None:
    """Nothing is imported for it."""
    told = refusal(plain, **{"algorithm._target_": target})
    assert f"algorithm._target_={target!r} is not allowed: it must start with" in told
    assert "--allow-import" in told


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("rlexp.algorithms.ppo.PPOO", "cannot be imported: AttributeError"),
        ("rlexp.algorithms.pppo.PPO", "cannot be imported: ModuleNotFoundError"),
        ("rlexp.algorithms.", "cannot be imported"),
        ("rlexp.algorithms..ppo.PPO", "cannot be imported"),
        ("rlexp.algorithms.library.construct", "is no plug-in: name a dataclass"),
        ("rlexp.algorithms.ppo.TYPE_CHECKING", "is no plug-in: name a dataclass"),
    ],
)
def test_a_target_that_is_no_plug_in_is_refused(
    plain: dict[str, Any], target: str, message: str
) -> None:
    """In one line, whatever the import says."""
    assert message in refusal(plain, **{"algorithm._target_": target})


def test_a_package_that_is_allowed_may_be_named(plain: dict[str, Any], package: str) -> None:
    """Its dataclasses are plug-ins like ours."""
    plain["agent"] = {"_target_": f"{package}.Mine", "size": 3}
    with pytest.raises(ConfigError, match="is not allowed"):
        validate(plain)
    _, parts = validate(plain, [package])
    assert (3, "x", package) == (parts.agent.size, parts.agent.text, type(parts.agent).__module__)


def test_allowing_a_package_does_not_allow_what_starts_alike(package: str) -> None:
    """`sample` does not open `sample_package`."""
    with pytest.raises(ConfigError, match="is not allowed"):
        load_target(f"{package}.Mine", "agent", [package.removesuffix("_package")])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken.Mine", "cannot be imported: SyntaxError"),
        ("failing.Mine", "cannot be imported: RuntimeError: x y"),
        ("missing.Mine", "cannot be imported: ModuleNotFoundError"),
        ("Plain", "is no plug-in"),
        ("function", "is no plug-in"),
    ],
)
def test_a_package_that_fails_is_told_in_one_line(package: str, name: str, message: str) -> None:
    """Its own exceptions reach no user as a traceback."""
    with pytest.raises(ConfigError, match=message) as caught:
        load_target(f"{package}.{name}", "agent", [package])
    assert "\n" not in str(caught.value)


def test_a_plug_in_of_a_package_is_validated_like_ours(package: str) -> None:
    """Types and names, all at once."""
    given_ = {"_target_": f"{package}.Mine", "size": "x", "txt": "y"}
    with pytest.raises(ConfigError) as caught:
        build(given_, "agent", [package])
    assert {
        'agent.size="x": must be a valid integer',
        "unknown key 'agent.txt'; did you mean 'text'? (there are: size, text)",
    } == set(str(caught.value).split("; ", 1))


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
def test_variables_are_filled_where_they_are_used(
    monkeypatch: pytest.MonkeyPatch, text: object, expected: object
) -> None:
    """On whatever level they stand."""
    monkeypatch.setenv("SAMPLE", "value")
    assert expected == fill_variables(text)


def test_a_variable_that_is_not_set_is_told(plain: dict[str, Any]) -> None:
    """By its name, with what to do."""
    with pytest.raises(ConfigError, match="variable NOT_SET is not set; set it or give a default"):
        validate(changed(plain, {"environment.id": "${oc.env:NOT_SET}"}))


def test_a_secret_is_not_told_when_it_does_not_fit(
    plain: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is named, the value masked."""
    monkeypatch.setenv("SAMPLE_TOKEN", "hunter2-hunter2")
    told = refusal(plain, **{"algorithm.n_steps": "${oc.env:SAMPLE_TOKEN}"})
    assert 'algorithm.n_steps="********": must be a valid integer' == told


def test_what_holds_a_variable_is_known() -> None:
    """Only text can."""
    found = [has_variable(value) for value in ("x ${oc.env:A} y", "${oc.env:A,b}", "A", 5, None)]
    assert [True, True, False, False, False] == found
