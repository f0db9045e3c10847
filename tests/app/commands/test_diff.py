"""`rlexp diff` prints the differences between two runs, and which parts are unknown."""

from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import (
    PROVENANCE,
    Stored,
    completed,
    configuration,
    stored,
    study,
)

from rlexp.app.commands.look.diff import diff
from rlexp.errors import RecordError
from rlexp.protocol.leaf_differences import LeafDifference, leaf_differences
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

PATCH = """diff --git a/one.py b/one.py
--- a/one.py
+++ b/one.py
@@ -1 +1 @@
-x
+y
"""


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Two configurations without runs."""
    return stored(Layout(tmp_path / "runs"), "alpha", configuration(), configuration("a2c"))


def output_lines(folder: Path, first: str, second: str) -> list[str]:
    """The lines of the text output."""
    return rlexp(folder, "diff", first, second).out.splitlines()


def json_of(folder: Path, first: str, second: str) -> dict[str, Any]:
    """The JSON document of a comparison of two runs."""
    return rlexp(folder, "diff", first, second, "--json").document("run-differences")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [LeafDifference("a.b[1]", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [LeafDifference("a", [1], [1, 2])]),
        ({"a": 1}, {"b": 1}, [LeafDifference("a", 1, None), LeafDifference("b", None, 1)]),
        ({"a": 1}, {"a": 1.0}, [LeafDifference("a", 1, 1.0)]),
        ({"a": 1}, {"a": True}, [LeafDifference("a", 1, True)]),
        ({"a": None}, {}, []),
        ({"a": {"skip": 1}}, {"a": {"skip": 2}}, []),
        ({"a": {"b": 1}}, {"a": 2}, [LeafDifference("a", {"b": 1}, 2)]),
    ],
)
def test_differing_values_are_named_by_their_path(
    first: dict[str, Any], second: dict[str, Any], expected: list[LeafDifference]
) -> None:
    """Differing values are named by path; null equals an absent key, and 1 differs from 1.0."""
    assert expected == leaf_differences(first, second, ignored=frozenset({"skip"}))


def test_two_seeds_differ_only_in_the_seed(alpha: Stored, tmp_path: Path) -> None:
    """Runs of one command differ only in the seed."""
    names = [alpha.complete(seed, 1.0 + seed).folder.name for seed in (0, 1)]
    assert [
        f"- alpha/{names[0]} (completed, score 1.00)",
        f"+ alpha/{names[1]} (completed, score 2.00)",
        "configuration",
        "  seed: 0 → 1",
        "no differences in code, packages, machine",
    ] == output_lines(tmp_path, *names)


def test_a_run_does_not_differ_from_itself(alpha: Stored, tmp_path: Path) -> None:
    """A run compared with itself has no differences."""
    name = alpha.complete(0, 1.0).folder.name
    assert output_lines(tmp_path, name, name)[2:] == ["no differences"]


def test_code_packages_and_machine_are_compared(alpha: Stored, tmp_path: Path) -> None:
    """Different commits, changed files, packages and hardware are listed."""
    other = {
        **PROVENANCE,
        "code": {"commit": "b" * 40, "untracked": ["new.py"]},
        "packages": {"numpy": "2.2.0", "scipy": "1.0"},
        "machine": {"host": "there", "cores": 2},
        "variables": {"OMP_NUM_THREADS": "4"},
    }
    first = alpha.attempt(0, completed(1.0), patch=PATCH + PATCH.replace("one", "two"))
    second = alpha.attempt(1, completed(1.0), provenance=other, patch=PATCH)
    value = json_of(tmp_path, first.folder.name, second.folder.name)
    assert ["commit", "changed.two.py", "changed.new.py"] == [d["path"] for d in value["code"]]
    assert [
        {"path": "numpy", "first": "2.1.0", "second": "2.2.0"},
        {"path": "torch", "first": "2.8.0", "second": None},
        {"path": "scipy", "first": None, "second": "1.0"},
    ] == value["packages"]
    assert ["host", "variables.OMP_NUM_THREADS"] == [d["path"] for d in value["machine"]]
    lines = output_lines(tmp_path, first.folder.name, second.folder.name)
    assert "  torch: 2.8.0 → —" in lines


def test_different_changes_of_the_same_file_are_a_difference(
    alpha: Stored, tmp_path: Path
) -> None:
    """Uncommitted files are compared by their content, not by their names."""
    first = alpha.attempt(0, patch=PATCH)
    second = alpha.attempt(1, patch=PATCH.replace("+y", "+z"))
    (difference,) = json_of(tmp_path, first.folder.name, second.folder.name)["code"]
    assert difference["path"] == "changed.one.py"


def test_unknown_parts_are_not_reported_as_equal(alpha: Stored, tmp_path: Path) -> None:
    """Code without a commit and parts without provenance are reported as unknown."""
    without_commit = {**PROVENANCE, "code": {"commit": None}}
    first, second = (alpha.attempt(seed, provenance=without_commit) for seed in (0, 1))
    names = first.folder.name, second.folder.name
    lines = output_lines(tmp_path, *names)
    assert "no differences in packages, machine" in lines
    assert f"the code of {names[0]} was in no git repository" in lines
    second.attempt(1).provenance.unlink()
    value = json_of(tmp_path, *names)
    assert [None] * 3 == [value[part] for part in ("code", "packages", "machine")]
    assert ["seed"] == [d["path"] for d in value["configuration"]]
    assert "is missing" in " ".join(value["unknown"])


def test_configurations_are_compared_leaf_by_leaf(alpha: Stored, tmp_path: Path) -> None:
    """Another algorithm is one difference, at the name of the plug-in."""
    first, second = alpha.complete(0, 1.0), alpha.complete(0, 1.0, label="a2c")
    value = json_of(tmp_path, first.folder.name, second.folder.name)
    assert ["algorithm.plug_in.name"] == [d["path"] for d in value["configuration"]]


def test_an_unknown_run_is_refused(alpha: Stored, tmp_path: Path) -> None:
    """A name that matches no run is refused."""
    name = alpha.complete(0, 1.0).folder.name
    with pytest.raises(RecordError, match=r"no run under .* matches 'nothing'"):
        diff(name, "nothing", study(tmp_path))
