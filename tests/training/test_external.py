"""Training scripts: their inputs, their results, and all ways in which they end."""

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from trainings import RecordingListener, spec_of

from rlexp.algorithms.external import External
from rlexp.app.execution.run_process import assemble
from rlexp.app.execution.scripts.external import train_external
from rlexp.protocol.budget import overtime_text
from rlexp.records.events import Ending, Evaluated, Failure, Measured, RunEnded, StopRequest
from rlexp.store.layout import AttemptPaths
from rlexp.training.scripts import external

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "external.md"
BEGIN = """
import json, os, signal, subprocess, sys, time
configuration = json.load(open(os.environ["RLEXP_CONFIGURATION"]))
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
    """Runs a script as an attempt in a separate folder."""

    folder: Path
    listener: RecordingListener = field(init=False)

    def __post_init__(self) -> None:
        self.listener = RecordingListener(self.folder)

    def train(
        self, text: str, *words: str, command: str = "{python} -S train.py", **operational: Any
    ) -> RunEnded:
        """Run a script with this text as an attempt, and return its end."""
        Path("train.py").write_text(BEGIN + text)
        spec = spec_of(*COMMAND, *words, algorithm={"command": command})
        training = assemble(spec, operational=operational)
        assert isinstance(training.algorithm, External)
        (self.folder / "1").mkdir()
        attempt = AttemptPaths(self.folder / "1")
        return train_external(spec, training.algorithm, training, attempt, self.listener)

    @property
    def files(self) -> Path:
        """The folder for files of the script."""
        return self.folder / "1" / "files"


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """An attempt in a fresh workspace."""
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path / "study")
    return Attempt(tmp_path)


def test_a_script_makes_a_run(attempt: Attempt) -> None:
    """The lines of a script become the events of its run, and the run completes."""
    end = attempt.train(
        "write(10, metrics={'loss': 0.5})\nwrite(50, returns=[7], lengths=[9])\n" + FINAL
    )
    metrics_event, evaluation, final_evaluation, last_event = attempt.listener.events
    assert isinstance(metrics_event, Measured)
    assert isinstance(evaluation, Evaluated)
    assert isinstance(final_evaluation, Evaluated)
    assert (10, {"loss": 0.5}) == (metrics_event.step, metrics_event.metrics)
    assert (50, (7.0,), (9,), False) == (
        evaluation.step, evaluation.returns, evaluation.lengths, evaluation.final
    )  # fmt: skip
    assert (100, (1.0, 2.0), True) == (
        final_evaluation.step,
        final_evaluation.returns,
        final_evaluation.final,
    )
    assert end == last_event
    assert (Ending.COMPLETED, 100, None) == (end.ending, end.step, end.weights)
    assert [None] == attempt.listener.began_at


def test_a_script_in_another_language(attempt: Attempt) -> None:
    """The shell script of the documentation receives arguments and variables, and trains."""
    (shell_script,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    Path("trainer.sh").write_text(shell_script)
    end = attempt.train("", command="sh trainer.sh {steps}")
    assert (Ending.COMPLETED, None) == (end.ending, end.reason)
    first_event = attempt.listener.events[0]
    assert isinstance(first_event, Measured)
    assert first_event.metrics["seed"] == spec_of(*COMMAND).streams.policy


def test_the_content_of_the_configuration_file(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration file holds distinct seeds, budget, task, settings, paths and threads."""
    # The script inherits the variables of the tests, so only those that it has in addition count.
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    attempt.train(
        """
keep = {k: v for k, v in os.environ.items() if k.startswith(("RLEXP_", "OMP_"))}
configuration |= {"variables": keep, "words": sys.argv[1:], "here": os.getcwd()}
json.dump(configuration, open(configuration["folder"] + "/told.json", "w"))
"""
        + FINAL,
        "algorithm.settings.lr=0.001",
        "algorithm.settings.net={sizes: [8, 8]}",
        "environment.vector.count=3",
        command="{python} -S train.py {task} {settings.lr} {settings.net.sizes} {{x}} {seed}",
    )
    content = json.loads((attempt.files / "told.json").read_text())
    seeds = content["seeds"]
    numbers = [seeds["policy"], seeds["actions"], *seeds["training"], *seeds["evaluation"]]
    assert 2 + 3 + 3 == len(set(numbers))
    assert all(0 <= number < 2**32 for number in numbers)
    assert seeds["policy"] == content["seed"]
    assert ["CartPole-v1", "0.001", "[8, 8]", "{x}", str(content["seed"])] == content["words"]
    assert (1, 100, 50) == (
        content["version"], content["budget"]["steps"], content["budget"]["evaluation_every"]
    )  # fmt: skip
    assert {"lr": 0.001, "net": {"sizes": [8, 8]}} == content["settings"]
    assert "CartPole-v1" == content["environment"]["id"] == content["task"]
    assert str(Path.cwd()) == content["here"] == content["working_directory"]
    folder = attempt.files.parent
    assert {
        "RLEXP_CONFIGURATION": str(folder / "configuration.json"),
        "RLEXP_RESULTS": str(folder / "results.jsonl"),
        "RLEXP_FOLDER": str(folder / "files"),
        "RLEXP_SEED": str(content["seed"]),
        "OMP_NUM_THREADS": "1",
    } == {k: v for k, v in content["variables"].items() if k not in os.environ}


def test_secrets_are_not_written_down(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting from an environment variable stays a reference in the configuration file."""
    monkeypatch.setenv("MY_TOKEN", "very-secret-words")
    end = attempt.train(
        "assert sys.argv[1] == os.environ['MY_TOKEN']\n" + FINAL,
        "algorithm.settings.token=${oc.env:MY_TOKEN}",
        command="{python} -S train.py {settings.token}",
    )
    assert Ending.COMPLETED is end.ending
    file_text = (attempt.folder / "1" / "configuration.json").read_text()
    assert "very-secret-words" not in file_text
    assert "${oc.env:MY_TOKEN}" in file_text


LOG = (
    "path = configuration['folder'] + '/../log.txt'\n"
    "print('ValueError: the last words', file=open(path, 'w'))\n"
)


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
def test_every_failure_is_named(
    text: str, failure: Failure, reason: str, attempt: Attempt
) -> None:
    """Every failure has a kind and a one-line reason."""
    end = attempt.train(text)
    assert (Ending.FAILED, failure) == (end.ending, end.failure), end.reason
    assert end.reason is not None
    assert reason in end.reason
    assert "\n" not in end.reason


def test_a_command_that_cannot_be_started(attempt: Attempt) -> None:
    """A command that cannot be started fails with its name and the folder of its files."""
    end = attempt.train("", command="no-such-program train.py")
    assert Failure.USER is end.failure
    assert end.reason is not None
    assert "cannot be started: no-such-program: No such file or directory" in end.reason


def test_a_line_may_come_in_pieces(attempt: Attempt) -> None:
    """A line that is written in two parts is read when it is complete."""
    text = """
os.write(results.fileno(), b'{"step": 100, "retu')
time.sleep(0.3)
os.write(results.fileno(), b'rns": [1, 2], "final": true}\\n')
"""
    assert Ending.COMPLETED is attempt.train(text).ending


def test_half_a_line_of_a_dead_script_is_ignored(attempt: Attempt) -> None:
    """Half a line of a script that died is ignored; the run fails because the script died."""
    end = attempt.train("results.write('{'); results.flush(); os.abort()")
    assert (Failure.CRASHED, []) == (end.failure, attempt.listener.events[:-1])


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
'''], stdout=subprocess.PIPE)
child.stdout.readline()
json.dump([os.getpid(), child.pid], open(configuration["folder"] + "/pids", "w"))
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
def test_a_stop_request_ends_all_processes_of_a_script(
    request_: StopRequest, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop request ends the script and its children, by a kill if they ignore SIGTERM."""
    monkeypatch.setattr(external, "GRACE", 0.2)
    attempt.listener.request, attempt.listener.request_at = request_, 50
    end = attempt.train(STUBBORN)
    assert (request_.ending, request_.reason, request_.rung, 50) == (
        end.ending, end.reason, end.rung, end.step
    )  # fmt: skip
    pids = json.loads((attempt.files / "pids").read_text())
    assert [] == [pid for pid in pids if _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_script_may_clean_up(attempt: Attempt) -> None:
    """A script that receives SIGTERM has time to clean up."""
    attempt.listener.request = StopRequest(Ending.INTERRUPTED, "asked to end")
    attempt.listener.request_at = 1
    text = """
def tidy(*_):
    open(configuration["folder"] + "/tidied", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
write(1)
time.sleep(60)
"""
    assert Ending.INTERRUPTED is attempt.train(text).ending
    assert (attempt.files / "tidied").exists()


def test_a_script_has_a_time_limit(attempt: Attempt) -> None:
    """A script that exceeds its time limit ends with the failure `timeout`."""
    attempt.listener.time = 100.0
    end = attempt.train("time.sleep(60)", timeout=50.0)
    assert (Failure.TIMEOUT, overtime_text(50.0)) == (end.failure, end.reason)


def test_only_lines_are_heartbeats(attempt: Attempt) -> None:
    """A run has a heartbeat at its start and at each line of its results file."""
    attempt.train("time.sleep(0.5)\nwrite(7)\n" + FINAL)
    assert [0, 7, 100] == attempt.listener.beats


def test_an_edited_script_interrupts_the_run(attempt: Attempt) -> None:
    """An edited script interrupts the run before it starts, and the reason says what to do."""
    Path("kept.py").write_text("first")
    spec = spec_of(*WORDS, "algorithm.command='{python} train.py'", "algorithm.files=[kept.py]")
    training = assemble(spec)
    assert isinstance(training.algorithm, External)
    Path("kept.py").write_text("second")
    end = train_external(
        spec, training.algorithm, training, AttemptPaths(attempt.folder / "1"), attempt.listener
    )
    assert Ending.INTERRUPTED is end.ending
    assert end.reason is not None
    assert "kept.py changed since the run was asked for" in end.reason
    assert not (attempt.folder / "1" / "results.jsonl").exists()


def test_the_interpreter_is_that_of_rlexp(attempt: Attempt) -> None:
    """`{python}` is the interpreter that runs rlexp."""
    end = attempt.train(f"assert sys.executable == {sys.executable!r}\n" + FINAL)
    assert Ending.COMPLETED == end.ending


def measured(attempt: Attempt) -> list[tuple[int, dict[str, float]]]:
    """Steps and metrics of the measurements, in the order in which they were recorded."""
    events = attempt.listener.events
    return [(e.step, dict(e.metrics)) for e in events if isinstance(e, Measured)]


LOGGING = """
import struct
sys.path[:0] = {path!r}
from rlexp.exchange.importers.event_file import checksum
def record(content):
    head = struct.pack("<Q", len(content))
    return head + struct.pack("<I", checksum(head)) + content + struct.pack("<I", checksum(content))
def scalar(tag, step, value):
    text = b"\\x0a" + bytes([len(tag)]) + tag + b"\\x15" + struct.pack("<f", value)
    summary = b"\\x0a" + bytes([len(text)]) + text
    return record(b"\\x10" + bytes([step]) + b"\\x2a" + bytes([len(summary)]) + summary)
folder = os.path.join(os.environ["RLEXP_FOLDER"], "run")
os.makedirs(folder)
events = open(os.path.join(folder, "events.out.tfevents.1.host"), "wb", buffering=0)
events.write(record(b"\\x1a\\x0dbrain.Event:2"))
"""


def logging() -> str:
    """The beginning of a script that writes an event file."""
    return LOGGING.format(path=sys.path)


def test_event_files_become_measurements(attempt: Attempt) -> None:
    """Scalars of event files are recorded before the final evaluation, which is written first."""
    end = attempt.train(
        f"{logging()}{FINAL}"
        'events.write(scalar(b"charts/episodic_return", 40, 9.0) + scalar(b"loss", 40, 0.5))\n'
        'events.write(scalar(b"loss", 80, 0.25) + scalar(b"eval/episodic_return", 0, 7.0))\n'
    )
    assert (Ending.COMPLETED, 100) == (end.ending, end.step)
    assert [
        (40, {"charts/episodic_return": 9.0, "loss": 0.5}),
        (80, {"loss": 0.25}),
    ] == measured(attempt)
    assert isinstance(attempt.listener.events[-2], Evaluated)


def test_event_files_are_followed(attempt: Attempt) -> None:
    """A record that is written in two parts is read when it is complete."""
    end = attempt.train(
        f"{logging()}"
        'half = scalar(b"loss", 40, 0.5)\n'
        "events.write(half[:9]); time.sleep(1.2); events.write(half[9:]); time.sleep(0.2)\n"
        f"{FINAL}"
    )
    assert Ending.COMPLETED is end.ending
    assert [(40, {"loss": 0.5})] == measured(attempt)


def test_a_damaged_event_file_fails_no_run(
    attempt: Attempt, capfd: pytest.CaptureFixture[str]
) -> None:
    """What stands before the damage is kept, the log names the file, and the run completes."""
    end = attempt.train(
        f"{logging()}"
        'events.write(scalar(b"loss", 40, 0.5)); time.sleep(1.2)\n'
        'events.write(b"x" * 50)\n'
        f"{FINAL}"
    )
    assert Ending.COMPLETED is end.ending
    assert [(40, {"loss": 0.5})] == measured(attempt)
    assert "events.out.tfevents.1.host is damaged" in capfd.readouterr().err


def test_a_killed_script_keeps_the_step_of_its_event_files(attempt: Attempt) -> None:
    """A script that reports nothing but event files has reached their last step."""
    end = attempt.train(f'{logging()}events.write(scalar(b"loss", 40, 0.5))\nsys.exit(3)\n')
    assert (Failure.USER, 40) == (end.failure, end.step)
