"""`rlexp logs` prints the log of a run safely."""

from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import Stored, completed, stored, study

from rlexp.app.commands.look.logs import logs
from rlexp.errors import ConfigError, RecordError
from rlexp.store.layout import Layout
from rlexp.store.runs import write_run

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """A run with two attempts, each with a log."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.attempt(0, log="first\n")
    alpha.attempt(0, completed(1.0), log="one\ntwo\nthree\n")
    return alpha


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "one\ntwo\nthree\n"),
        (("--lines", "2"), "two\nthree\n"),
        (("--lines", "9"), "one\ntwo\nthree\n"),
        (("--lines", "0"), ""),
        (("--attempt", "1"), "first\n"),
        (("--attempt", "2", "--lines", "1"), "three\n"),
    ],
)
def test_the_output_of_an_attempt_is_printed(
    alpha: Stored,
    tmp_path: Path,
    options: tuple[str, ...],
    expected: str,
) -> None:
    """By default, the whole log of the last attempt is printed."""
    printed = rlexp(tmp_path, "logs", "ppo-test-0", *options)
    assert (0, expected) == (printed.code, printed.out)


def test_json_has_lines_and_their_number(alpha: Stored, tmp_path: Path) -> None:
    """The JSON document has the run, the attempt, the file and the requested lines."""
    document = rlexp(tmp_path, "logs", "ppo-test-0", "-n", "2", "--json").document("log")
    run = alpha.run(0)
    assert document == {
        "experiment": "alpha",
        "run": run.folder.name,
        "attempt": 2,
        "file": str(run.attempt(2).log),
        "total": 3,
        "lines": ["two", "three"],
        "imported": None,
        "jobs": [],
    }


def write_job(alpha: Stored, name: str, *seeds: int) -> Path:
    """Write the output of a job that executes these runs; returns its file."""
    file = alpha.paths.jobs / name
    file.parent.mkdir(exist_ok=True)
    runs = " ".join(alpha.run(seed).folder.name for seed in seeds)
    file.write_text(f"rlexp: job 7_0 on node1 executes: {runs}\nModuleNotFoundError\n")
    return file


def test_the_output_of_jobs_is_printed_by_the_name_of_the_experiment(
    alpha: Stored, tmp_path: Path
) -> None:
    """`rlexp logs EXPERIMENT` prints the output of each job once, below the name of its file."""
    files = [write_job(alpha, "abc.txt", 0, 1), write_job(alpha, "array-1_0.txt", 0)]
    printed = rlexp(tmp_path, "logs", "alpha", "-n", "1")
    assert (0, f"==> {files[0]} <==\nModuleNotFoundError\n") == (printed.code, printed.out)
    document = rlexp(tmp_path, "logs", "alpha", "--json").document("job-logs")
    assert [[alpha.run(seed).folder.name for seed in (0, 1)]] == [
        j["runs"] for j in document["jobs"]
    ]


def test_a_run_that_has_not_started_has_the_output_of_its_job(
    alpha: Stored, tmp_path: Path
) -> None:
    """`rlexp logs RUN` prints the job's output before the first attempt, and names it later."""
    write_run(alpha.run(1), alpha.spec(1))
    write_job(alpha, "other.txt", 5)
    file = write_job(alpha, "abc.txt", 0, 1)
    waiting = rlexp(tmp_path, "logs", "ppo-test-1")
    assert [f"==> {file} <==", "ModuleNotFoundError"] == waiting.out.splitlines()[::2]
    started = rlexp(tmp_path, "logs", "ppo-test-0")
    assert ("one\ntwo\nthree\n", f"its cluster job printed: {file}\n") == (
        started.out,
        started.err,
    )


def test_an_experiment_without_jobs_has_no_log(alpha: Stored, tmp_path: Path) -> None:
    """`rlexp logs EXPERIMENT` without jobs, or with --attempt, says what to write instead."""
    with pytest.raises(RecordError, match="rlexp logs alpha/RUN"):
        logs("alpha", None, None, study(tmp_path))
    with pytest.raises(ConfigError, match="--attempt=1 is for a run"):
        logs("alpha", 1, None, study(tmp_path))


def test_control_characters_are_harmless(tmp_path: Path) -> None:
    """Control characters and invalid bytes are replaced; tabs and line breaks stay."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.attempt(0, log=b"\x1b]0;title\x07[bold]a\tb[/bold]\r\nc\rd \xff\xe2\x80\xae:smile:\n")
    printed = rlexp(tmp_path, "logs", "ppo-test-0").out
    mark = "\N{REPLACEMENT CHARACTER}"
    expected = f"{mark}]0;title{mark}[bold]a\tb[/bold]\nc{mark}d {mark}{mark}:smile:\n"
    assert expected == printed


@pytest.mark.parametrize("missing", [False, True])
def test_the_note_on_an_empty_log_is_on_standard_error(tmp_path: Path, missing: bool) -> None:
    """For an empty log, standard output is empty and standard error has a note."""
    run = stored(Layout(tmp_path / "runs")).attempt(0)
    if missing:
        run.attempt(1).log.unlink()
    printed = rlexp(tmp_path, "logs", "ppo-test-0")
    expected = (0, "", f"attempt 1 of run {run.folder.name} printed nothing\n")
    assert expected == (printed.code, printed.out, printed.err)


def test_unknown_attempts_and_negative_counts_are_refused(alpha: Stored, tmp_path: Path) -> None:
    """An unknown attempt, a run without attempts and a negative count are refused."""
    write_run(alpha.run(1), alpha.spec(1))
    with pytest.raises(RecordError, match=r"no attempt 3 \(there are: 1, 2\)"):
        logs("ppo-test-0", 3, None, study(tmp_path))
    with pytest.raises(RecordError, match="has not started yet"):
        logs("ppo-test-1", None, None, study(tmp_path))
    with pytest.raises(ConfigError, match="--lines=-1 is negative"):
        logs("ppo-test-0", None, -1, study(tmp_path))
