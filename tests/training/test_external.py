"""Training scripts: what they are told, what they write, and every way in which they end."""

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from trainings import Memory, spec_of

from rlexp.algorithms.external import External
from rlexp.app.execution.external import train_external
from rlexp.app.execution.run_process import assemble
from rlexp.records.events import Ending, Evaluated, Failure, Measured, RunEnded, StopRequest
from rlexp.store.layout import AttemptPaths
from rlexp.training import external

PAGE = Path(__file__).parents[2] / "docs" / "external.md"
BEGIN = """
import json, os, signal, subprocess, sys, time
told = json.load(open(os.environ["RLEXP_CONFIGURATION"]))
results = open(os.environ["RLEXP_RESULTS"], "a", buffering=1)
def write(step, **values): results.write(json.dumps({"step": step, **values}) + "\\n")
"""
FINAL = "write(100, returns=[1, 2], final=True)\n"
WORDS = (
    "algorithm=external",
    "environment=cartpole",
    "budget.steps=100",
    "budget.evaluation_every=50",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
)
COMMAND = (*WORDS, "algorithm.command=x")


@dataclass
class Attempt:
    """Lets a script execute an attempt in a folder of its own."""

    folder: Path
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(self.folder)

    def trained(
        self, text: str, *words: str, command: str = "{python} -S train.py", **operational: Any
    ) -> RunEnded:
        """How an attempt ends with a script of this text."""
        Path("train.py").write_text(BEGIN + text)
        spec = spec_of(*COMMAND, *words, algorithm={"command": command})
        training = assemble(spec, operational=operational)
        assert isinstance(training.algorithm, External)
        (self.folder / "1").mkdir()
        attempt = AttemptPaths(self.folder / "1")
        return train_external(spec, training.algorithm, training, attempt, self.memory)

    @property
    def files(self) -> Path:
        """Where the script writes what it likes."""
        return self.folder / "1" / "files"


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """An attempt, in a study of its own."""
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path / "study")
    return Attempt(tmp_path)


def test_a_script_makes_a_run(attempt: Attempt) -> None:
    """Its lines are the run's events, in their order, and the last says how it ended."""
    ended = attempt.trained(
        "write(10, metrics={'loss': 0.5})\nwrite(50, returns=[7], lengths=[9])\n" + FINAL
    )
    measured, evaluated, final, last = attempt.memory.events
    assert isinstance(measured, Measured)
    assert isinstance(evaluated, Evaluated)
    assert isinstance(final, Evaluated)
    assert (10, {"loss": 0.5}) == (measured.step, measured.metrics)
    assert (50, (7.0,), (9,), False) == (
        evaluated.step, evaluated.returns, evaluated.lengths, evaluated.final
    )  # fmt: skip
    assert (100, (1.0, 2.0), True) == (final.step, final.returns, final.final)
    assert ended == last
    assert (Ending.COMPLETED, 100, None) == (ended.ending, ended.step, ended.weights)
    assert [None] == attempt.memory.began_at


def test_a_script_in_another_language(attempt: Attempt) -> None:
    """The shell script that the page shows is a trainer, too; it gets words and variables."""
    (shown,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    Path("trainer.sh").write_text(shown)
    ended = attempt.trained("", command="sh trainer.sh {steps}")
    assert (Ending.COMPLETED, None) == (ended.ending, ended.reason)
    first = attempt.memory.events[0]
    assert isinstance(first, Measured)
    assert first.metrics["seed"] == spec_of(*COMMAND).streams.policy


def test_what_a_script_is_told(attempt: Attempt) -> None:
    """Seeds of 32 bits that all differ, budget, task, settings, places, threads."""
    attempt.trained(
        """
keep = {k: v for k, v in os.environ.items() if k.startswith(("RLEXP_", "OMP_"))}
told |= {"variables": keep, "words": sys.argv[1:], "here": os.getcwd()}
json.dump(told, open(told["folder"] + "/told.json", "w"))
"""
        + FINAL,
        "algorithm.settings.lr=0.001",
        "algorithm.settings.net={sizes: [8, 8]}",
        "environment.vector.count=3",
        command="{python} -S train.py {task} {settings.lr} {settings.net.sizes} {{x}} {seed}",
    )
    told = json.loads((attempt.files / "told.json").read_text())
    seeds = told["seeds"]
    numbers = [seeds["policy"], seeds["actions"], *seeds["training"], *seeds["evaluation"]]
    assert 2 + 3 + 3 == len(set(numbers))
    assert all(0 <= number < 2**32 for number in numbers)
    assert seeds["policy"] == told["seed"]
    assert ["CartPole-v1", "0.001", "[8, 8]", "{x}", str(told["seed"])] == told["words"]
    assert (1, 100, 50) == (
        told["version"], told["budget"]["steps"], told["budget"]["evaluation_every"]
    )  # fmt: skip
    assert {"lr": 0.001, "net": {"sizes": [8, 8]}} == told["settings"]
    assert "CartPole-v1" == told["environment"]["id"] == told["task"]
    assert str(Path.cwd()) == told["here"] == told["working_directory"]
    folder = attempt.files.parent
    assert {
        "RLEXP_CONFIGURATION": str(folder / "configuration.json"),
        "RLEXP_RESULTS": str(folder / "results.jsonl"),
        "RLEXP_FOLDER": str(folder / "files"),
        "RLEXP_SEED": str(told["seed"]),
        "OMP_NUM_THREADS": "1",
    } == {k: v for k, v in told["variables"].items() if k not in {"RLEXP_HOME", "RLEXP_RUNS"}}


def test_secrets_are_not_written_down(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting from a variable of the environment stays a reference in the file."""
    monkeypatch.setenv("MY_TOKEN", "very-secret-words")
    ended = attempt.trained(
        "assert sys.argv[1] == os.environ['MY_TOKEN']\n" + FINAL,
        "algorithm.settings.token=${oc.env:MY_TOKEN}",
        command="{python} -S train.py {settings.token}",
    )
    assert Ending.COMPLETED is ended.ending
    written = (attempt.folder / "1" / "configuration.json").read_text()
    assert "very-secret-words" not in written
    assert "${oc.env:MY_TOKEN}" in written


LOG = "print('ValueError: the last words', file=open(told['folder'] + '/../log.txt', 'w'))\n"


@pytest.mark.parametrize(
    ("text", "failure", "reason"),
    [
        (LOG + "sys.exit(3)", Failure.USER, "ended with code 3: ValueError: the last words"),
        (FINAL + "sys.exit(1)", Failure.USER, "the script ended with code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", Failure.CRASHED, "killed by signal 9 (SIGKILL)"),
        ("os.abort()", Failure.CRASHED, "killed by signal 6 (SIGABRT)"),
        ("sys.exit(139)", Failure.CRASHED, "killed by signal 11 (SIGSEGV)"),
        ("write(50)", Failure.USER, "ended at step 50 without a final evaluation"),
        ("print('{', file=results)", Failure.USER, "line 1 of the results file: it is not JSON"),
        ("results.write('{')", Failure.USER, "line 1 of the results file: it is not JSON: '{'"),
        ("write(100, returns=[1, float('nan')], final=True)", Failure.NAN, "no finite number"),
        (
            "write(50); time.sleep(0.3); results.truncate(0); time.sleep(30)",
            Failure.USER,
            "was cut",
        ),
        ("write(9); write(8); time.sleep(30)", Failure.USER, "step 8 goes back behind step 9"),
    ],
)
def test_every_bad_end_has_its_name(
    text: str, failure: Failure, reason: str, attempt: Attempt
) -> None:
    """One line says why; what still runs is ended."""
    ended = attempt.trained(text)
    assert (Ending.FAILED, failure) == (ended.ending, ended.failure), ended.reason
    assert ended.reason is not None
    assert reason in ended.reason
    assert "\n" not in ended.reason


def test_a_command_that_is_none(attempt: Attempt) -> None:
    """It fails with its name, and says from where files are seen."""
    ended = attempt.trained("", command="no-such-program train.py")
    assert Failure.USER is ended.failure
    assert ended.reason is not None
    assert "cannot be started: no-such-program: No such file or directory" in ended.reason


def test_a_line_may_come_in_pieces(attempt: Attempt) -> None:
    """A line without its end is waited for."""
    text = """
os.write(results.fileno(), b'{"step": 100, "retu')
time.sleep(0.3)
os.write(results.fileno(), b'rns": [1, 2], "final": true}\\n')
"""
    assert Ending.COMPLETED is attempt.trained(text).ending


def test_a_line_that_death_cut_is_none(attempt: Attempt) -> None:
    """The run failed because its script died, not because of half a line."""
    ended = attempt.trained("results.write('{'); results.flush(); os.abort()")
    assert (Failure.CRASHED, []) == (ended.failure, attempt.memory.events[:-1])


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
'''], stdout=subprocess.PIPE)
child.stdout.readline()
json.dump([os.getpid(), child.pid], open(told["folder"] + "/pids", "w"))
write(50, returns=[1])
time.sleep(60)
"""


@pytest.mark.parametrize(
    "request_",
    [
        StopRequest(Ending.PRUNED, "not worth it", rung=50),
        StopRequest(Ending.INTERRUPTED, "asked to end"),
    ],
)
def test_a_request_to_stop_ends_all_that_was_started(
    request_: StopRequest, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not listen is killed, with its children, and the run ends as it was asked to."""
    monkeypatch.setattr(external, "GRACE", 0.2)
    attempt.memory.request, attempt.memory.request_at = request_, 50
    ended = attempt.trained(STUBBORN)
    assert (request_.ending, request_.reason, request_.rung, 50) == (
        ended.ending, ended.reason, ended.rung, ended.step
    )  # fmt: skip
    pids = json.loads((attempt.files / "pids").read_text())
    assert [] == [pid for pid in pids if _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_script_may_tidy_up(attempt: Attempt) -> None:
    """SIGTERM comes first: what a script does then is done."""
    attempt.memory.request = StopRequest(Ending.INTERRUPTED, "asked to end")
    attempt.memory.request_at = 1
    text = """
def tidy(*_):
    open(told["folder"] + "/tidied", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
write(1)
time.sleep(60)
"""
    assert Ending.INTERRUPTED is attempt.trained(text).ending
    assert (attempt.files / "tidied").exists()


def test_its_time_can_be_up(attempt: Attempt) -> None:
    """A run that takes too long is ended."""
    attempt.memory.time = 100.0
    ended = attempt.trained("time.sleep(60)", timeout=50.0)
    assert (Failure.TIMEOUT, "not done after 50 s") == (ended.failure, ended.reason)


def test_only_lines_are_signs_of_life(attempt: Attempt) -> None:
    """A script that writes none is found to hang; a bare step is enough."""
    attempt.trained("time.sleep(0.5)\nwrite(7)\n" + FINAL)
    assert [0, 7, 100] == attempt.memory.beats


def test_an_edited_script_is_not_taken_for_the_same_run(attempt: Attempt) -> None:
    """The run is interrupted before anything starts, and says what to do."""
    Path("kept.py").write_text("first")
    spec = spec_of(*WORDS, "algorithm.command='{python} train.py'", "algorithm.files=[kept.py]")
    training = assemble(spec)
    assert isinstance(training.algorithm, External)
    Path("kept.py").write_text("second")
    ended = train_external(
        spec, training.algorithm, training, AttemptPaths(attempt.folder), attempt.memory
    )
    assert Ending.INTERRUPTED is ended.ending
    assert ended.reason is not None
    assert "kept.py changed since the run was asked for" in ended.reason
    assert not (attempt.folder / "results.jsonl").exists()


def test_the_interpreter_is_that_of_rlexp(attempt: Attempt) -> None:
    """{python} runs what is installed beside rlexp."""
    ended = attempt.trained(f"assert sys.executable == {sys.executable!r}\n" + FINAL)
    assert (Ending.COMPLETED, os.getcwd()) == (ended.ending, str(Path.cwd()))  # noqa: PTH109
