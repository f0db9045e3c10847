"""`rlexp diff`: in what two runs differ, and what of it is not known."""

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

from rlexp.app.commands.diff import diff
from rlexp.errors import RecordError
from rlexp.protocol.difference import Difference, leaf_differences
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
    """Two configurations, no runs."""
    return stored(Layout(tmp_path / "runs"), "alpha", configuration(), configuration("a2c"))


def text(folder: Path, first: str, second: str) -> list[str]:
    """What people read, line by line."""
    return rlexp(folder, "diff", first, second).out.splitlines()


def plain(folder: Path, first: str, second: str) -> dict[str, Any]:
    """What machines read."""
    return rlexp(folder, "diff", first, second, "--json").document("run-differences")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [Difference("a.b[1]", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [Difference("a", [1], [1, 2])]),
        ({"a": 1}, {"b": 1}, [Difference("a", 1, None), Difference("b", None, 1)]),
        ({"a": 1}, {"a": 1.0}, [Difference("a", 1, 1.0)]),
        ({"a": 1}, {"a": True}, [Difference("a", 1, True)]),
        ({"a": None}, {}, []),
        ({"a": {"skip": 1}}, {"a": {"skip": 2}}, []),
        ({"a": {"b": 1}}, {"a": 2}, [Difference("a", {"b": 1}, 2)]),
    ],
)
def test_leaves_that_differ_are_named_by_their_path(
    first: dict[str, Any], second: dict[str, Any], expected: list[Difference]
) -> None:
    """A key that is null counts as absent, and 1 and 1.0 differ, as they do for the identity."""
    assert expected == leaf_differences(first, second, ignored=frozenset({"skip"}))


def test_two_seeds_differ_in_their_seed_alone(alpha: Stored, tmp_path: Path) -> None:
    """Runs of one command differ in nothing else."""
    names = [alpha.complete(seed, 1.0 + seed).folder.name for seed in (0, 1)]
    assert [
        f"- alpha/{names[0]} (completed, score 1.00)",
        f"+ alpha/{names[1]} (completed, score 2.00)",
        "configuration",
        "  seed: 0 → 1",
        "no difference in code, packages, machine",
    ] == text(tmp_path, *names)


def test_a_run_does_not_differ_from_itself(alpha: Stored, tmp_path: Path) -> None:
    """No difference is said in two words."""
    name = alpha.complete(0, 1.0).folder.name
    assert text(tmp_path, name, name)[2:] == ["no difference"]


def test_code_packages_and_machine_are_compared(alpha: Stored, tmp_path: Path) -> None:
    """Commit, uncommitted changes by file, packages added, removed and changed, hardware."""
    other = {
        **PROVENANCE,
        "code": {"commit": "b" * 40, "untracked": ["new.py"]},
        "packages": {"numpy": "2.2.0", "scipy": "1.0"},
        "machine": {"host": "there", "cores": 2},
        "variables": {"OMP_NUM_THREADS": "4"},
    }
    first = alpha.attempt(0, completed(1.0), patch=PATCH + PATCH.replace("one", "two"))
    second = alpha.attempt(1, completed(1.0), provenance=other, patch=PATCH)
    value = plain(tmp_path, first.folder.name, second.folder.name)
    assert ["commit", "changed.two.py", "changed.new.py"] == [d["path"] for d in value["code"]]
    assert [
        {"path": "numpy", "first": "2.1.0", "second": "2.2.0"},
        {"path": "torch", "first": "2.8.0", "second": None},
        {"path": "scipy", "first": None, "second": "1.0"},
    ] == value["packages"]
    assert ["host", "variables.OMP_NUM_THREADS"] == [d["path"] for d in value["machine"]]
    shown = text(tmp_path, first.folder.name, second.folder.name)
    assert "  torch: 2.8.0 → —" in shown


def test_the_same_file_changed_differently_is_a_difference(alpha: Stored, tmp_path: Path) -> None:
    """A dirty file is compared by its change, not by its name."""
    first = alpha.attempt(0, patch=PATCH)
    second = alpha.attempt(1, patch=PATCH.replace("+y", "+z"))
    (difference,) = plain(tmp_path, first.folder.name, second.folder.name)["code"]
    assert difference["path"] == "changed.one.py"


def test_what_is_not_known_is_not_called_the_same(alpha: Stored, tmp_path: Path) -> None:
    """Without a commit the code may differ; without provenance, everything but the spec may."""
    nowhere = {**PROVENANCE, "code": {"commit": None}}
    first, second = (alpha.attempt(seed, provenance=nowhere) for seed in (0, 1))
    names = first.folder.name, second.folder.name
    shown = text(tmp_path, *names)
    assert "no difference in packages, machine" in shown
    assert f"the code of {names[0]} was in no git checkout" in shown
    second.attempt(1).provenance.unlink()
    value = plain(tmp_path, *names)
    assert [None] * 3 == [value[part] for part in ("code", "packages", "machine")]
    assert ["seed"] == [d["path"] for d in value["configuration"]]
    assert "is missing" in " ".join(value["unknown"])


def test_configurations_are_compared_leaf_by_leaf(alpha: Stored, tmp_path: Path) -> None:
    """Another algorithm on the same seed shows as that."""
    first, second = alpha.complete(0, 1.0), alpha.complete(0, 1.0, label="a2c")
    value = plain(tmp_path, first.folder.name, second.folder.name)
    assert ["algorithm.plug_in.name"] == [d["path"] for d in value["configuration"]]


def test_an_unknown_run_is_refused(alpha: Stored, tmp_path: Path) -> None:
    """Both names have to lead to one run each."""
    name = alpha.complete(0, 1.0).folder.name
    with pytest.raises(RecordError, match=r"no run under .* matches 'nothing'"):
        diff(name, "nothing", study(tmp_path))
