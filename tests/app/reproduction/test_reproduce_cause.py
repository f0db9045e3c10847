"""The likely cause of a different result is taken from the strongest evidence."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from samples import completed, failed, spec, write_tree

from rlexp.app.reproduction.comparison import (
    DECIDING,
    EnvironmentChange,
    EnvironmentDifference,
    ReproductionVerdict,
    compare_environments,
    editable_folder,
    judge_reproduction,
)
from rlexp.app.reproduction.original import Original, RecordedCode
from rlexp.app.workspace import Workspace
from rlexp.cli.exchange.reproduce import run_lines, summary_line
from rlexp.records.events import Failure
from rlexp.store.layout import Layout, RunPaths
from rlexp.store.provenance import machine, packages

quick = pytest.fixture(autouse=True)(quick_parts)

CODE = RecordedCode(commit="a" * 40)
ORIGINAL = Original(
    paths=RunPaths(Path("runs/first/ppo-test-0")),
    record=completed(spec(), 5.0),
    provenance={},
    code=CODE,
)
SAME = EnvironmentDifference(decisive=(), machine=(), others=(), editable=None, known=True)
NUMPY = EnvironmentChange("numpy", "2.0.1", "2.3.4")
PROCESSOR = EnvironmentChange("processor", "one", "another")
OTHER_MACHINE = replace(SAME, machine=(PROCESSOR,))
MIXED = replace(ORIGINAL, mixed=True)
PART = replace(ORIGINAL, code=replace(CODE, saved=False))
NO_COMMIT = replace(ORIGINAL, code=RecordedCode())
EVERYTHING = replace(PART, mixed=True)


@pytest.mark.parametrize(
    ("original", "environment", "expected"),
    [
        (
            EVERYTHING,
            replace(OTHER_MACHINE, decisive=(NUMPY,)),
            "numpy 2.0.1 originally, 2.3.4 now",
        ),
        (EVERYTHING, OTHER_MACHINE, "processor one originally, another now"),
        (EVERYTHING, SAME, "attempts of the run used different code"),
        (PART, SAME, "its uncommitted changes were not saved in full"),
        (NO_COMMIT, SAME, "the code may have changed since: no commit was recorded"),
        (ORIGINAL, replace(SAME, known=False), "the cause is unknown: no packages were recorded"),
        (ORIGINAL, SAME, "rlexp doctor --determinism first/ppo-test-0 --allow-import mine"),
        (ORIGINAL, replace(SAME, editable=Path("/a/b")), "or rlexp itself was edited since"),
    ],
    ids=[
        "versions",
        "machine",
        "mixed code",
        "part of the changes",
        "no commit",
        "nothing",
        "nondeterminism",
        "rlexp",
    ],
)
def test_the_strongest_cause_is_named(
    original: Original, environment: EnvironmentDifference, expected: str
) -> None:
    """The strongest of several possible causes is named."""
    study = Workspace(Path(), Layout(Path("runs")), ("mine",))
    comparison = judge_reproduction(original, completed(spec(), 6.0), environment, study)
    assert ReproductionVerdict.DIFFERENT is comparison.verdict
    assert comparison.cause is not None
    assert expected in comparison.cause
    assert not comparison.reproduced
    assert [
        "first/ppo-test-0: different",
        "  score 5.00 originally, 6.00 now",
        "  first difference at step 100, evaluated returns[0]: 4.0 originally, 5.0 now",
        f"  likely cause: {comparison.cause}",
    ] == [*run_lines(comparison.result())]


def test_identical_has_no_cause() -> None:
    """Identical executions have no cause of a difference."""
    study = Workspace(Path(), Layout(Path("runs")))
    comparison = judge_reproduction(ORIGINAL, completed(spec(), 5.0), OTHER_MACHINE, study)
    assert (None, None, True) == (
        comparison.cause,
        comparison.divergence,
        comparison.reproduced,
    )
    assert ["first/ppo-test-0: identical, score 5.00"] == [*run_lines(comparison.result())]


def test_failure_is_no_reproduction() -> None:
    """A second execution that failed has the verdict `failed`, with its reason."""
    study = Workspace(Path(), Layout(Path("runs")))
    comparison = judge_reproduction(ORIGINAL, failed(spec(), Failure.USER), SAME, study)
    assert (ReproductionVerdict.FAILED, False) == (comparison.verdict, comparison.reproduced)
    assert "  the repeated run ended as failed (user): reason of user" in [
        *run_lines(comparison.result())
    ]
    assert "1 run: 1 failed" == summary_line([comparison.result()])


def test_the_summary_counts_verdicts() -> None:
    """The summary has the number of runs with each verdict."""
    study = Workspace(Path(), Layout(Path("runs")))
    comparisons = [
        judge_reproduction(ORIGINAL, completed(spec(), score), SAME, study)
        for score in (5.0, 6.0, 5.0)
    ]
    assert "3 runs: 2 identical, 1 different" == summary_line(
        [comparison.result() for comparison in comparisons]
    )


def recorded(**changes: Any) -> Mapping[str, Any]:
    """Provenance of this machine, with changes."""
    from platform import python_version

    document = {"packages": packages(), "machine": machine(), "python": python_version()}
    return {**document, "variables": {}, **changes}


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset all variables that can change numbers."""
    for name in filter(DECIDING.fullmatch, list(os.environ)):
        monkeypatch.delenv(name)


def environment_difference(tmp_path: Path, **changes: Any) -> EnvironmentDifference:
    """The differences from the recorded environment."""
    return compare_environments(recorded(**changes), [spec()], tmp_path)


def test_the_recording_machine_shows_no_difference(tmp_path: Path, unset: None) -> None:
    """On the machine that recorded the provenance, nothing differs."""
    differences = environment_difference(tmp_path)
    assert ((), (), (), None, True) == (
        differences.decisive,
        differences.machine,
        differences.others,
        differences.install,
        differences.known,
    )


def test_decisive_packages_are_separated(tmp_path: Path) -> None:
    """Packages that determine numbers are listed apart, with a command that installs them."""
    then = {"Stable_Baselines3": "2.0.0", "torch": "2.5.1+cu121", "rich": "1.0", "gone": "3.0"}
    differences = environment_difference(
        tmp_path, packages={**packages(), **then}, python="3.11.0rc1"
    )
    assert ["python", "stable-baselines3", "torch"] == [c.name for c in differences.decisive]
    assert ["gone", "rich"] == [c.name for c in differences.others]
    assert "pip install stable-baselines3==2.0.0 torch==2.5.1" == differences.install


def test_another_build_of_a_version_is_not_requested_from_pip() -> None:
    """Another build of the same version is not requested from pip."""
    build = EnvironmentChange("torch", "2.9.0+cpu", "2.9.0+cu128")
    assert replace(SAME, decisive=(build,)).install is None


def test_a_different_machine_is_noticed(
    tmp_path: Path, unset: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor and decisive variables are compared, paths and numbers of threads are not."""
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "somewhere")
    variables = {"PYTHONHASHSEED": "3", "OMP_NUM_THREADS": "77", "PYTHONPATH": "x"}
    differences = environment_difference(
        tmp_path, machine={"processor": "one"}, variables=variables
    )
    assert [("processor", "one"), ("MKL_CBWR", None), ("PYTHONHASHSEED", "3")] == [
        (change.name, change.then) for change in differences.machine
    ]


def test_imports_of_the_environment_decide(tmp_path: Path) -> None:
    """A package that the workspace's environment imports is decisive."""
    (tmp_path / "importing_task.py").write_text("import rich\nraise SystemExit('imported')\n")
    spec_with_imports = replace(
        spec(), environment={**spec().environment, "imports": ["importing_task"]}
    )
    differences = compare_environments(
        recorded(packages={**packages(), "rich": "1.0"}), [spec_with_imports], tmp_path
    )
    assert ["rich"] == [change.name for change in differences.decisive]


@pytest.mark.parametrize("document", [{}, {"packages": 3, "machine": [], "variables": "x"}])
def test_missing_or_senseless_records_show_no_difference(
    document: Mapping[str, Any], tmp_path: Path
) -> None:
    """Without usable records, no difference is reported."""
    differences = compare_environments(document, [spec()], tmp_path)
    assert ((), (), (), False) == (
        differences.decisive,
        differences.machine,
        differences.others,
        differences.known,
    )


def test_the_folder_of_an_editable_installation_may_have_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installer records the folder as a URL, in which a space is written %20."""
    source = tmp_path / "my projects" / "tool"
    write_tree(
        tmp_path / "site",
        {
            "edited_tool-1.0.dist-info/METADATA": "Name: edited-tool\nVersion: 1.0\n",
            "edited_tool-1.0.dist-info/direct_url.json": json.dumps(
                {"url": source.as_uri(), "dir_info": {"editable": True}}
            ),
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert source == editable_folder("edited-tool")
