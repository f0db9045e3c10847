"""Runs that a node executes in a temporary folder come back and overwrite nothing."""

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import ended, spec, started

from rlexp.errors import RecordError
from rlexp.executors.ray import node_task
from rlexp.executors.ray.bridge import reason_of
from rlexp.executors.ray.messages import Mailbox, Message, Piece, pack
from rlexp.executors.ray.node_task import RunFiles, execute
from rlexp.executors.ray.result_writer import Intake
from rlexp.executors.ray.session import uploaded_files
from rlexp.records.checkpoint import Checkpoint, Transitions
from rlexp.records.events import Event
from rlexp.store.checkpoints.checkpoint_files import (
    checkpoint_steps,
    clear_replay,
    is_resumable,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.journal import write_journal
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import write_run

HERE = Path(__file__).parent


def send(intake: Intake, returns: RunFiles, **options: bool) -> None:
    """Send all new files from the node to the command."""
    for message in returns.messages(**{"everything": True, **options}):
        intake.take_in(message["parcel"], message.get("kept"))


def journal(paths: RunPaths, number: int, text: str) -> None:
    """Append text to the journal of an attempt."""
    location = paths.attempt(number).journal
    location.parent.mkdir(parents=True, exist_ok=True)
    with location.open("a") as file:
        file.write(text)


def checkpoint(paths: RunPaths, step: int) -> None:
    """Publish a checkpoint with the transition of one step."""
    transitions = Transitions(step - 1, step, b"experience %d" % step)
    content = Checkpoint(step=step, files={"state.npz": b"%d" % step}, transitions=transitions)
    publish_checkpoint(paths, content, {"run": "x"})


@pytest.fixture
def node_run(tmp_path: Path) -> RunPaths:
    """The folder of a run on a node."""
    (tmp_path / "there" / "run").mkdir(parents=True)
    return RunPaths(tmp_path / "there" / "run")


@pytest.fixture
def local_run(tmp_path: Path) -> RunPaths:
    """The folder of the same run on the machine of the command."""
    (tmp_path / "here" / "run").mkdir(parents=True)
    return RunPaths(tmp_path / "here" / "run")


def test_checkpoints_follow_those_of_the_worker(node_run: RunPaths, local_run: RunPaths) -> None:
    """The command gets new checkpoints and experience, and drops those that the worker removed."""
    returns, intake = RunFiles(node_run.folder), Intake(local_run, "job", 0)
    for step in (1, 2, 3):
        checkpoint(node_run, step)
        send(intake, returns)
    assert [3, 2] == checkpoint_steps(local_run)
    saved = read_checkpoint(local_run, 3, run_id="x")
    assert {"state.npz": b"3"} == saved.files
    assert [b"experience 1", b"experience 2", b"experience 3"] == [
        item.content for item in saved.transitions()
    ]


def test_a_run_that_is_over_keeps_its_policies_only(
    node_run: RunPaths, local_run: RunPaths
) -> None:
    """The command removes the experience of a completed run when the worker removes it."""
    returns, intake = RunFiles(node_run.folder), Intake(local_run, "job", 0)
    checkpoint(node_run, 1)
    send(intake, returns)
    assert is_resumable(local_run, 1)
    clear_replay(node_run)
    send(intake, returns)
    assert not is_resumable(local_run, 1)
    assert not list(local_run.replay.iterdir())


def test_nothing_is_removed_before_its_successor_is_here(
    node_run: RunPaths, local_run: RunPaths
) -> None:
    """The command keeps its checkpoint until the next checkpoint has arrived."""
    intake = Intake(local_run, "job", 0)
    checkpoint(node_run, 1)
    send(intake, _unsent_files(node_run))
    intake.take_in(pack([]), ["checkpoints/2", "replay/1-2.npz"])
    assert [1] == checkpoint_steps(local_run)


def _unsent_files(paths: RunPaths) -> RunFiles:
    """The files of a folder as if none of them had been sent."""
    returns = RunFiles(paths.folder)
    returns._seen.clear()
    returns._journals.clear()
    return returns


def test_the_journal_comes_last_and_whole_lines_only(
    node_run: RunPaths, local_run: RunPaths
) -> None:
    """A journal arrives after the files that it names, without its unfinished last line."""
    returns = RunFiles(node_run.folder)
    journal(node_run, 1, '{"event":"ended"}\n{"half')
    node_run.model.write_bytes(b"model")
    node_run.attempt(1).settings.write_text("{}")
    messages = list(returns.messages(everything=False))
    intake = Intake(local_run, "job", 0)
    for message in messages[:-1]:
        intake.take_in(message["parcel"])
    assert local_run.model.exists()
    assert local_run.attempt(1).settings.exists()
    assert not local_run.attempt(1).journal.exists()
    intake.take_in(messages[-1]["parcel"], messages[-1]["kept"])
    assert '{"event":"ended"}\n' == local_run.attempt(1).journal.read_text()
    send(intake, returns, last=True)
    assert node_run.attempt(1).journal.read_text() == local_run.attempt(1).journal.read_text()


def test_the_copy_of_a_parent_goes_with_the_end_of_the_run(
    node_run: RunPaths, local_run: RunPaths
) -> None:
    """The state that an extended run begins with stays until its end has come back."""
    write_run(local_run, spec())
    checkpoint(local_run.parent, 1)
    journals: list[list[Event]] = [[started()], [started(), ended(100)]]
    returns, intake = RunFiles(node_run.folder), Intake(local_run, "job", 0)
    kept = []
    for events in journals:
        node_run.attempt(1).folder.mkdir(parents=True, exist_ok=True)
        node_run.attempt(1).journal.unlink(missing_ok=True)
        write_journal(node_run.attempt(1).journal, events)
        send(intake, returns)
        kept.append(local_run.parent.folder.exists())
    assert [True, False] == kept


def test_what_came_from_the_command_is_not_sent_back(node_run: RunPaths) -> None:
    """Files that the command sent to the node are not sent back."""
    journal(node_run, 1, "old\n")
    checkpoint(node_run, 1)
    assert [] == list(RunFiles(node_run.folder).messages(everything=False))
    returns = RunFiles(node_run.folder)
    sizes = [len(message["parcel"]) for message in returns.messages(everything=True)]
    assert [len(pack([]))] == sizes


def test_late_bytes_of_a_fenced_attempt_are_refused(
    node_run: RunPaths, local_run: RunPaths
) -> None:
    """Late files of an attempt are refused once another job has made the next attempt."""
    returns, intake = _unsent_files(node_run), Intake(local_run, "late", 0)
    journal(node_run, 1, "one\n")
    send(intake, returns)
    journal(local_run, 2, "another's\n")
    journal(node_run, 1, "two\n")
    checkpoint(node_run, 1)
    with pytest.raises(
        RecordError, match=r"late files of job late .* another job has made attempt 2"
    ):
        send(intake, returns)
    assert "one\n" == local_run.attempt(1).journal.read_text()
    assert [] == checkpoint_steps(local_run)


def test_an_attempt_of_the_same_number_is_not_shared(
    node_run: RunPaths, local_run: RunPaths
) -> None:
    """Two jobs that both begin attempt 1 do not write into one folder."""
    journal(node_run, 1, "mine\n")
    send(Intake(local_run, "first", 0), _unsent_files(node_run), last=True)
    journal(node_run, 1, "and more\n")
    with pytest.raises(RecordError, match="another job has made attempt"):
        send(Intake(local_run, "second", 0), _unsent_files(node_run), last=True)
    assert "mine\n" == local_run.attempt(1).journal.read_text()


@pytest.mark.parametrize(
    "name",
    ["spec.json", "stop", "attempts/1/events.jsonl", "attempts/x/log.txt", "attempts/3", "a/b"],
)
def test_only_what_workers_make_is_taken(name: str, local_run: RunPaths) -> None:
    """Files from a node overwrite neither the run's definition nor an earlier attempt."""
    journal(local_run, 1, "before\n")
    local_run.spec.write_text("spec")
    with pytest.raises(RecordError, match=r"no worker sends|another job has made"):
        Intake(local_run, "job", 1).take_in(pack([Piece(name, b"changed")]))
    assert "before\n" == local_run.attempt(1).journal.read_text()
    assert "spec" == local_run.spec.read_text()


def test_damaged_checkpoints_are_refused(node_run: RunPaths, local_run: RunPaths) -> None:
    """A checkpoint whose files do not match its manifest is refused."""
    checkpoint(node_run, 1)
    manifest = (node_run.checkpoints / "1" / "manifest.json").read_bytes()
    for files in (
        {"state.npz": b"other", "manifest.json": manifest},
        {"state.npz": b"1"},
        {"manifest.json": manifest},
        {"manifest.json": manifest[:-40]},
    ):
        pieces = [Piece(f"checkpoints/1/{name}", content) for name, content in files.items()]
        with pytest.raises(RecordError, match="sent a"):
            Intake(local_run, "job", 0).take_in(pack(pieces))
    assert not local_run.checkpoints.exists()


def test_a_mailbox_holds_one_message_of_a_job() -> None:
    """A mailbox takes the next message of a job after the first one was read."""
    box = Mailbox()
    assert (True, []) == box.exchange("a", {"n": 1})
    box.send("a", {"do": "stop"})
    assert (False, [{"do": "stop"}]) == box.exchange("a", {"n": 2})
    assert {"a": {"n": 1}} == box.collect()
    assert (True, []) == box.exchange("a", {"n": 2})
    assert (False, []) == box.exchange("b", None)


def test_ends_are_told_in_words() -> None:
    """The reason of a worker's end names its code or signal, and its last line of output."""
    assert "its worker had nothing left to do" == reason_of({"code": 0, "tail": "x"})
    assert "its worker was killed by signal 9" == reason_of({"code": -9, "tail": "\n"})
    assert "its worker ended with code 2: no" == reason_of({"code": 2, "tail": "a\n no \n\n"})


class Command:
    """Plays the command at the other end of a mailbox, in the same process."""

    def __init__(self, experiment: ExperimentPaths, letter: Message) -> None:
        self.experiment = experiment
        self.box = Mailbox()
        self.begin_message: Message = {}
        self.result: Message = {}
        self.intakes = {run: Intake(experiment.run(run), "job", 0) for run in ("a", "b")}
        self.thread = threading.Thread(target=self._execute, args=(letter,), daemon=True)
        self.thread.start()

    def _execute(self, letter: Message) -> None:
        self.result = execute(letter, lambda message: self.box.exchange("job", message))

    def serve(self, until: Callable[[], bool]) -> None:
        """Handle messages until a condition holds or the job has ended."""
        deadline = time.monotonic() + 60
        while not until():
            assert time.monotonic() < deadline
            alive = self.thread.is_alive()
            for message in self.box.collect().values():
                self._handle(message)
            if not alive:
                return
            time.sleep(0.05)

    def _handle(self, message: Message) -> None:
        if "begun" in message:
            self.begin_message = message
            runs = [self.experiment.run(run) for run in self.intakes]
            parcel = pack(uploaded_files(self.experiment, runs))
            self.box.send("job", {"do": "begin", "runs": ["a", "b"], "parcel": parcel})
        else:
            self.intakes[message["run"]].take_in(message["parcel"], message.get("kept"))


@pytest.fixture
def letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Message:
    """The request of a task for a folder with two runs, with short intervals."""
    monkeypatch.setattr(node_task, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(node_task, "NEWS_EVERY", 0.3)
    experiment = tmp_path / "runs" / "sample"
    for run in ("a", "b"):
        (experiment / run).mkdir(parents=True)
        (experiment / run / "spec.json").write_text("{}")
    (experiment / "list").write_text("a\nb\n")
    (experiment / "token").write_text("secret")
    return {
        "job": "job",
        "worker": worker(2, 0.0, 0),
        "folder": str(tmp_path),
        "variables": {"RLEXP_RUNS": str(tmp_path / "runs"), "EXPERIMENT": "sample"},
        "experiment": str(experiment),
        "list": str(experiment / "list"),
        "grace": 5.0,
        "token_file": str(experiment / "token"),
        "token": "secret",
        "shared": "auto",
        "return_every": 0.2,
    }


def worker(steps: int, seconds: float, code: int) -> list[str]:
    """The command line of the stand-in for a worker."""
    return [sys.executable, str(HERE / "ray_worker.py"), str(steps), str(seconds), str(code)]


def command(letter: Message, **changes: Any) -> Command:
    """A stand-in for a command, whose job has begun."""
    return Command(ExperimentPaths(Path(letter["experiment"])), {**letter, **changes})


def test_a_node_that_sees_the_folder_works_in_it(letter: Message) -> None:
    """A node that finds the command's token works in the shared folder."""
    driver = command(letter)
    driver.serve(until=lambda: False)
    assert {"begun": True, "shared": True} == driver.begin_message
    assert {"code": 0, "tail": "the worker's last words\n"} == driver.result
    assert [2, 1] == checkpoint_steps(driver.experiment.run("b"))


@pytest.mark.parametrize("shared", ["auto", False])
def test_runs_come_back_from_a_node_that_does_not(letter: Message, shared: object) -> None:
    """A node without a shared folder executes the runs apart and sends them back complete."""
    driver = command(letter, shared=shared, token="another")
    driver.serve(until=lambda: False)
    assert not driver.begin_message["shared"]
    assert 0 == driver.result["code"]
    for run in ("a", "b"):
        paths = driver.experiment.run(run)
        assert [2, 1] == checkpoint_steps(paths)
        assert paths.model.read_bytes() == b"model"
        assert paths.attempt(1).journal.read_text().endswith('{"event":"ended"}\n')


def test_an_interpreter_that_is_not_there_is_replaced(letter: Message) -> None:
    """A node without the given Python starts the worker with the Python of its task."""
    arguments = ["/nowhere/python", *letter["worker"][1:]]
    driver = command(letter, worker=arguments)
    driver.serve(until=lambda: False)
    assert 0 == driver.result["code"]


def test_stopping_leaves_what_was_made(letter: Message) -> None:
    """A job that is asked to stop sends its worker SIGTERM and returns the last files."""
    driver = command(letter, shared=False, worker=worker(1000, 0.1, 0))
    a = driver.experiment.run("a")
    driver.serve(until=a.attempt(1).journal.exists)
    driver.box.send("job", {"do": "stop"})
    driver.serve(until=lambda: False)
    assert 143 == driver.result["code"]
    steps = checkpoint_steps(a)
    assert steps
    assert a.attempt(1).journal.read_text().count("\n") >= steps[0] - 1


def test_a_worker_that_will_not_end_is_killed(letter: Message, tmp_path: Path) -> None:
    """A worker that ignores SIGTERM is killed after its grace."""
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path / 'up')!r}).touch()\n"
        "time.sleep(100)\n"
    )
    driver = command(letter, worker=[sys.executable, str(stubborn)], grace=0.5)
    driver.serve(until=(tmp_path / "up").exists)
    driver.box.send("job", {"do": "stop"})
    driver.serve(until=lambda: False)
    assert -signal.SIGKILL == driver.result["code"]


def test_a_request_to_stop_reaches_a_run_apart(letter: Message) -> None:
    """A request to stop one run ends that run on the node, and the next run begins."""
    driver = command(letter, shared=False, worker=worker(20, 0.2, 0))
    a, b = driver.experiment.run("a"), driver.experiment.run("b")
    driver.serve(until=a.attempt(1).journal.exists)
    driver.box.send("job", {"do": "ask", "run": "a", "stop": "{}"})
    driver.serve(until=b.attempt(1).journal.exists)
    assert a.attempt(1).journal.read_text().count("\n") < 20
    driver.box.send("job", {"do": "kill"})
    driver.serve(until=lambda: False)
    assert -signal.SIGKILL == driver.result["code"]


def test_folders_of_nodes_are_not_left(
    letter: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary folder of a job is removed when the job ends."""
    location = tmp_path / "temporary"
    location.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(location))
    driver = command(letter, shared=False)
    driver.serve(until=lambda: bool(list(location.glob("rlexp-node-*"))))
    driver.serve(until=lambda: False)
    assert [] == list(location.iterdir())
