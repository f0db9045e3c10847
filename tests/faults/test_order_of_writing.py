"""What a power cut must not lose is on the disk before anything that depends on it is written.

The system calls of a whole sweep are traced. A power cut keeps what was made durable by fsync, and
may lose anything else: so each line and file is synced before the next step that builds on it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from studies import new_study
from tracing import STRACE, traced

SWEEP = (
    *("algorithm=ppo", "environment=cartpole", "budget.steps=3000"),
    *("budget.evaluation_every=1000", "algorithm.gamma=interval(0.9, 0.99)", "tuner=random"),
    *("sweep.trials=2", "sweep.lag=1", "seeds.tuning=1", "seeds.selection=1", "seeds.test=1"),
    *("experiment=x", "executor.workers=1"),
)
CALLS = "write,pwrite64,fsync,rename,mkdir"
LINE = re.compile(r"^(?P<pid>\d+) +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)")


@dataclass(frozen=True)
class Call:
    """A system call that succeeded.

    Attributes:
        name: Name of the call.
        path: The file that is written or synced, the new name of a rename, or the new folder.
        text: All arguments.
    """

    name: str
    path: str
    text: str


def calls_of(trace: Path) -> Iterator[Call]:
    """The calls in the order in which they ended."""
    unfinished: dict[str, str] = {}
    for traced_line in trace.read_text(errors="replace").splitlines():
        line, pid = traced_line, traced_line.split(maxsplit=1)[0]
        if line.endswith("<unfinished ...>"):
            unfinished[pid] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := re.match(r"^\d+ +<\.\.\. \w+ resumed>(.*)", line):
            line = unfinished.pop(pid, "") + resumed[1]
        if (match := LINE.match(line)) and not match["result"].startswith("-"):
            names = re.findall(r'(?:^\d+<|")([^">]+)[">]', match["arguments"])
            path = names[1] if match["call"] == "rename" else names[0]
            yield Call(match["call"], path, match["arguments"])


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """The calls of a sweep with two trials, one finalist's selection run and one test run."""
    folder = tmp_path_factory.mktemp("order")
    trace = folder / "trace"
    before = [STRACE, "-f", "-y", "-qq", "-s", "4096", "-o", str(trace), "-e", f"trace={CALLS}"]
    with new_study(folder / "study", quick=True, warm=True) as study:
        code, output = study.give("sweep", *SWEEP, before=before)
        assert code == 0, output
    return list(calls_of(trace))


def positions(calls: list[Call], name: str, pattern: str) -> list[int]:
    """Positions of the calls of a name whose path matches a pattern."""
    return [i for i, c in enumerate(calls) if c.name == name and re.search(pattern, c.path)]


def synced(calls: list[Call], after: int, before: int) -> bool:
    """Whether the file that is written at one position is synced before another position."""
    path = calls[after].path
    return any(c.name == "fsync" and c.path == path for c in calls[after + 1 : before])


@traced
def test_the_end_of_a_run_is_durable_before_the_ledger_names_it(calls: list[Call]) -> None:
    """The last line of each journal is synced before the ledger has a line about the run."""
    ends = [
        i
        for i in positions(calls, "write", r"/events\.jsonl$")
        if '"ended' in calls[i].text.replace("\\", "")
    ]
    assert len(ends) >= 4
    for end in ends:
        run = calls[end].path.split("/attempts/")[0].rsplit("/", 1)[1]
        line = next(
            i
            for i in positions(calls, "pwrite64", r"/ledger\.jsonl$")
            if i > end and run in calls[i].text
        )
        assert synced(calls, end, line), run


@traced
def test_each_evaluation_is_synced(calls: list[Call]) -> None:
    """An evaluation is synced before the journal has another line."""
    journals = positions(calls, "write", r"/events\.jsonl$")
    evaluations = [i for i in journals if "evaluated" in calls[i].text]
    assert evaluations
    for position in evaluations:
        following = next(
            i for i in journals if i > position and calls[i].path == calls[position].path
        )
        assert synced(calls, position, following)


@traced
@pytest.mark.parametrize("name", ["ledger", "trials"])
def test_each_appended_line_is_synced(calls: list[Call], name: str) -> None:
    """A line of the ledger or of the trials is synced before the next line and before the end."""
    lines = positions(calls, "pwrite64", rf"/{name}\.jsonl$")
    assert len(lines) >= 2
    for position, following in zip(lines, [*lines[1:], len(calls)], strict=True):
        assert synced(calls, position, following)


@traced
def test_a_trial_is_durable_before_its_run_exists(calls: list[Call]) -> None:
    """The line of each trial is synced before the folder of its run is made."""
    trials = positions(calls, "pwrite64", r"/trials\.jsonl$")
    runs = positions(calls, "mkdir", r"/ppo-tuning-[^/]*$")
    assert (2, 2) == (len(trials), len(runs))
    for trial, run in zip(trials, runs, strict=True):
        assert synced(calls, trial, run)


@traced
def test_the_choice_is_durable_before_any_test_run_exists(calls: list[Call]) -> None:
    """The selection is synced and renamed, and its folder synced, before a test run is made."""
    (rename,) = positions(calls, "rename", r"/selection\.json$")
    temporary = re.findall(r'"([^"]+)"', calls[rename].text)[0]
    tests = positions(calls, "mkdir", r"/ppo-test-[^/]*$")
    assert tests
    folder = str(Path(calls[rename].path).parent)
    writes = [i for i in positions(calls, "write", re.escape(temporary)) if i < rename]
    assert synced(calls, writes[-1], rename)
    assert any(
        calls[i].path == folder for i in positions(calls, "fsync", "/x$") if rename < i < tests[0]
    )
