"""Limits of the machine: memory that the kernel takes back, and endless output."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_group import memory_group
from studies import StudyFolder, new_study

from rlexp.executors.memory import out_of_memory_kills

WORDS = ("run", "experiment=x", "budget.steps=3000", "budget.evaluation_every=1000")
ENTER = ("sh", "-c", 'echo $$ > "$1" && shift && exec "$@"', "sh")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        yield study


def test_what_the_kernel_kills_for_memory_is_named_and_no_score(study: StudyFolder) -> None:
    """A run that outgrows its control group fails as `out_of_memory` after three attempts."""
    greedy = {"RLEXP_QUICK": '{"bytes": 900000000}'}
    with memory_group(400_000_000) as processes:
        if processes is None:
            pytest.skip("no control group can be made here")
        before = (*ENTER, str(processes))
        code, output = study.give(*WORDS, "seeds.test=1", before=before, variables=greedy)
    assert code == 1, output
    (run,) = study.runs("x")
    assert ("failed", "out_of_memory", 3, None) == (
        run["state"],
        run["failure"],
        run["attempts"],
        run["score"],
    )
    assert "killed by signal 9" in run["reason"]


@pytest.mark.parametrize(
    ("groups", "file", "content"),
    [
        ("0::/a/b\n", "a/b/memory.events", "low 0\noom 2\noom_kill 3\n"),
        ("4:memory:/x\n0::/\n", "memory/x/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        ("0::/of/the/host\n", "memory.events", "oom_kill 3\n"),
        ("3:cpu,memory:/of/the/host\n", "memory/memory.oom_control", "oom_kill 3\n"),
    ],
)
def test_kills_are_counted_in_either_version(
    tmp_path: Path, groups: str, file: str, content: str
) -> None:
    """Out-of-memory kills are counted in both versions of control groups, and in containers."""
    (tmp_path / "own").write_text(groups)
    assert out_of_memory_kills(tmp_path, tmp_path / "own") == 0
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    assert out_of_memory_kills(tmp_path, tmp_path / "own") == 3


def test_a_gigabyte_of_output_fills_no_disk(study: StudyFolder) -> None:
    """A run that prints a gigabyte completes, and its log stays within the limit."""
    flood = {"RLEXP_QUICK": '{"flood": 1000000000}'}
    limit = ("executor.log_limit=100_000", "seeds.test=1")
    code, output = study.give(*WORDS, *limit, variables=flood)
    assert code == 0, output
    log = next((study.folder / "runs" / "x").glob("*/attempts/1/log.txt"))
    assert log.stat().st_size <= 200_000
    assert b"the log was capped here" in log.read_bytes()
    assert output.count("\n") < 30
