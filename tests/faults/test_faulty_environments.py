"""A fault of an environment in its process harms one run and no other."""

import json
from collections.abc import Iterator

import pytest
from in_full import long
from studies import StudyFolder, new_study, odd

TINY = ("budget.steps=256",)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudyFolder]:
    """A study whose experiments do not disturb one another."""
    with new_study(tmp_path_factory.mktemp("study"), warm=True) as study:
        yield study


@pytest.fixture(scope="module")
def faults(study: StudyFolder) -> None:
    """Runs of environments with different faults, beside a healthy one."""
    names = ("none", "exit", "segfault", "raise", "nan_observation")
    arguments = odd(names, *TINY, "experiment=faults", "environment.arguments.at=50")
    code, output = study.give("run", *arguments)
    assert code == 1, output


@pytest.mark.usefixtures("faults")
def test_each_fault_of_a_process_is_recorded_with_its_kind(study: StudyFolder) -> None:
    """An exit, a crash and bad numbers are told apart, and the healthy run completes."""
    runs_by_fault = {r["label"].partition("=")[2]: r for r in study.runs("faults")}
    assert {
        name: (r["state"], r["failure"], r["attempts"]) for name, r in runs_by_fault.items()
    } == {
        "none": ("completed", None, 1),
        "exit": ("failed", "crashed", 3),
        "segfault": ("failed", "crashed", 3),
        "raise": ("failed", "environment", 1),
        "nan_observation": ("failed", "environment", 1),
    }
    assert "ended with code 0 and without a result" in runs_by_fault["exit"]["reason"]
    assert "killed by signal 11" in runs_by_fault["segfault"]["reason"]
    assert runs_by_fault["raise"]["reason"] == "step 50: RuntimeError: the motor is on fire"


@pytest.mark.usefixtures("faults")
def test_a_crash_leaves_its_stack_in_the_log(study: StudyFolder) -> None:
    """`rlexp logs` shows where a segmentation fault happened."""
    (run,) = (r["run"] for r in study.runs("faults") if r["label"].endswith("=segfault"))
    _, output = study.give("logs", f"faults/{run}")
    assert ("Segmentation fault" in output, "odd_environments.py" in output) == (True, True)


def test_failures_of_the_configuration_are_final_until_retried(study: StudyFolder) -> None:
    """A repeat does not retry a run that its environment failed, but --retry does."""
    arguments = odd("raise", *TINY, "experiment=final", "environment.arguments.at=50")
    assert study.give("run", *arguments)[0] == 1
    code, output = study.give("run", *arguments)
    assert (code, study.runs("final")[0]["attempts"]) == (1, 1), output
    assert study.give("run", *arguments, "--retry")[0] == 1
    assert study.runs("final")[0]["attempts"] == 2


def test_a_hung_run_is_killed_and_named(study: StudyFolder) -> None:
    """A run without a step for half a second is `hung`, and fails after three attempts."""
    arguments = odd("hang", *TINY, "experiment=hung", "environment.arguments.at=50")
    code, output = study.give("run", *arguments, "executor.hang_timeout=0.5")
    assert code == 1, output
    run = study.runs("hung")[0]
    assert (run["state"], run["failure"], run["attempts"]) == ("failed", "hung", 3)
    assert run["reason"] == (
        "no progress for 0.5 s; if one step may take longer, raise executor.hang_timeout"
    )
    assert not study.processes()


def test_a_flood_of_output_is_capped(study: StudyFolder) -> None:
    """Output beyond the limit is cut from the log, and the run completes."""
    arguments = odd("flood", *TINY, "experiment=flood", "environment.arguments.at=50")
    code, output = study.give("run", *arguments, "executor.log_limit=100_000")
    assert code == 0, output
    log = next((study.folder / "runs" / "flood").glob("*/attempts/1/log.txt"))
    assert log.stat().st_size <= 200_000
    assert b"the log was capped here" in log.read_bytes()


@long
def test_a_failure_counts_as_the_worst_score_only_where_declared(study: StudyFolder) -> None:
    """With failures=worst, a failed run is the declared minimum, and the summary says so."""
    arguments = odd("raise", *TINY, "environment.arguments.at=50")
    declared = ("failures=worst", "environment.reference.minimum=0")
    _, output = study.give("run", *arguments, "experiment=worst", *declared, "--json")
    cell = json.loads(output[output.index("{\n") :])["summary"]["cells"][0]
    assert (cell["n"], cell["counted_as_worst"], cell["estimate"]["estimate"]) == (1, 1, 0.0)
    _, output = study.give("run", *arguments, "experiment=missing", "--json")
    cell = json.loads(output[output.index("{\n") :])["summary"]["cells"][0]
    assert (cell["n"], cell["failed"], cell["estimate"]) == (0, 1, None)
