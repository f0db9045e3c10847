"""Runs that are executed in a folder of their own come back, and overwrite nothing."""

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlexp.errors import RecordError
from rlexp.executors.ray import node_task
from rlexp.executors.ray.bridge import reason_of
from rlexp.executors.ray.messages import Mailbox, Message, Piece, pack
from rlexp.executors.ray.node_task import RunFiles, execute
from rlexp.executors.ray.result_writer import Intake
from rlexp.executors.ray.session import uploaded_files
from rlexp.records.checkpoint import Checkpoint, Transitions
from rlexp.store.checkpoints import (
    checkpoint_steps,
    clear_replay,
    is_resumable,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.layout import ExperimentPaths, RunPaths

HERE = Path(__file__).parent


def send(source: RunPaths, intake: Intake, returns: RunFiles, **how: bool) -> None:
    """Send back what is new."""
    for message in returns.messages(**{"everything": True, **how}):
        intake.take_in(message["parcel"], message.get("kept"))


def journal(paths: RunPaths, number: int, text: str) -> None:
    """Append to the journal of an attempt."""
    location = paths.attempt(number).journal
    location.parent.mkdir(parents=True, exist_ok=True)
    with location.open("a") as file:
        file.write(text)


def checkpoint(paths: RunPaths, step: int) -> None:
    """Publish a checkpoint with a step's transition."""
    stretch = Transitions(step - 1, step, b"experience %d" % step)
    made = Checkpoint(step=step, files={"state.npz": b"%d" % step}, transitions=stretch)
    publish_checkpoint(paths, made, {"run": "x"})


@pytest.fixture
def there(tmp_path: Path) -> RunPaths:
    """The folder of a run on a node."""
    (tmp_path / "there" / "run").mkdir(parents=True)
    return RunPaths(tmp_path / "there" / "run")


@pytest.fixture
def here(tmp_path: Path) -> RunPaths:
    """The same run's folder, as the command sees it."""
    (tmp_path / "here" / "run").mkdir(parents=True)
    return RunPaths(tmp_path / "here" / "run")


def test_checkpoints_follow_those_of_the_worker(there: RunPaths, here: RunPaths) -> None:
    """New checkpoints and experience come, removed ones go, and what is here can be read."""
    returns, intake = RunFiles(there.folder), Intake(here, "job", 0)
    for step in (1, 2, 3):
        checkpoint(there, step)
        send(there, intake, returns)
    assert [3, 2] == checkpoint_steps(here)
    saved = read_checkpoint(here, 3, run_id="x")
    assert {"state.npz": b"3"} == saved.files
    assert [b"experience 1", b"experience 2", b"experience 3"] == [
        item.content for item in saved.transitions()
    ]


def test_a_run_that_is_over_keeps_its_policies_only(there: RunPaths, here: RunPaths) -> None:
    """Where the worker removed the experience of a completed run, so does the command."""
    returns, intake = RunFiles(there.folder), Intake(here, "job", 0)
    checkpoint(there, 1)
    send(there, intake, returns)
    assert is_resumable(here, 1)
    clear_replay(there)
    send(there, intake, returns)
    assert not is_resumable(here, 1)
    assert not list(here.replay.iterdir())


def test_nothing_is_removed_before_its_successor_is_here(there: RunPaths, here: RunPaths) -> None:
    """A worker's word that it has another checkpoint does not cost the one that is here."""
    intake = Intake(here, "job", 0)
    checkpoint(there, 1)
    send(there, intake, _fresh(there))
    intake.take_in(pack([]), ["checkpoints/2", "replay/1-2.npz"])
    assert [1] == checkpoint_steps(here)


def _fresh(paths: RunPaths) -> RunFiles:
    """As if nothing of a folder had been sent."""
    returns = RunFiles(paths.folder)
    returns._seen.clear()
    returns._journals.clear()
    return returns


def test_the_journal_comes_last_and_whole_lines_only(there: RunPaths, here: RunPaths) -> None:
    """What a journal says rests on files that were sent before; a line in the making waits."""
    returns = RunFiles(there.folder)
    journal(there, 1, '{"event":"ended"}\n{"half')
    there.model.write_bytes(b"model")
    there.attempt(1).settings.write_text("{}")
    messages = list(returns.messages(everything=False))
    intake = Intake(here, "job", 0)
    for message in messages[:-1]:
        intake.take_in(message["parcel"])
    assert here.model.exists()
    assert here.attempt(1).settings.exists()
    assert not here.attempt(1).journal.exists()
    intake.take_in(messages[-1]["parcel"], messages[-1]["kept"])
    assert '{"event":"ended"}\n' == here.attempt(1).journal.read_text()
    send(there, intake, returns, last=True)
    assert there.attempt(1).journal.read_text() == here.attempt(1).journal.read_text()


def test_what_came_from_the_command_is_not_sent_back(there: RunPaths) -> None:
    """A run goes on from what it was given, and only what is new travels."""
    journal(there, 1, "old\n")
    checkpoint(there, 1)
    assert [] == list(RunFiles(there.folder).messages(everything=False))
    returns = RunFiles(there.folder)
    sizes = [len(message["parcel"]) for message in returns.messages(everything=True)]
    assert [len(pack([]))] == sizes


def test_late_bytes_of_a_fenced_attempt_are_refused(there: RunPaths, here: RunPaths) -> None:
    """Once another made the next attempt, nothing that the first still sends is written."""
    returns, intake = _fresh(there), Intake(here, "late", 0)
    journal(there, 1, "one\n")
    send(there, intake, returns)
    journal(here, 2, "another's\n")
    journal(there, 1, "two\n")
    checkpoint(there, 1)
    with pytest.raises(
        RecordError, match=r"late files of job late .* another job has made attempt 2"
    ):
        send(there, intake, returns)
    assert "one\n" == here.attempt(1).journal.read_text()
    assert [] == checkpoint_steps(here)


def test_an_attempt_of_the_same_number_is_not_shared(there: RunPaths, here: RunPaths) -> None:
    """Two jobs that both begin attempt 1 do not write into one folder."""
    journal(there, 1, "mine\n")
    send(there, Intake(here, "first", 0), _fresh(there), last=True)
    journal(there, 1, "and more\n")
    with pytest.raises(RecordError, match="another job has made attempt"):
        send(there, Intake(here, "second", 0), _fresh(there), last=True)
    assert "mine\n" == here.attempt(1).journal.read_text()


@pytest.mark.parametrize(
    "name",
    ["spec.json", "stop", "attempts/1/events.jsonl", "attempts/x/log.txt", "attempts/3", "a/b"],
)
def test_only_what_workers_make_is_taken(name: str, here: RunPaths) -> None:
    """Neither what defines the run nor an earlier attempt can be overwritten from a node."""
    journal(here, 1, "before\n")
    here.spec.write_text("spec")
    with pytest.raises(RecordError, match=r"no worker sends|another job has made"):
        Intake(here, "job", 1).take_in(pack([Piece(name, b"changed")]))
    assert "before\n" == here.attempt(1).journal.read_text()
    assert "spec" == here.spec.read_text()


def test_damaged_checkpoints_are_refused(there: RunPaths, here: RunPaths) -> None:
    """A checkpoint whose files are not those of its manifest never gets its place."""
    checkpoint(there, 1)
    manifest = (there.checkpoints / "1" / "manifest.json").read_bytes()
    for files in (
        {"state.npz": b"other", "manifest.json": manifest},
        {"state.npz": b"1"},
        {"manifest.json": manifest},
        {"manifest.json": manifest[:-40]},
    ):
        pieces = [Piece(f"checkpoints/1/{name}", content) for name, content in files.items()]
        with pytest.raises(RecordError, match="sent a"):
            Intake(here, "job", 0).take_in(pack(pieces))
    assert not here.checkpoints.exists()


def test_a_mailbox_holds_one_message_of_a_job() -> None:
    """A command that lags is not flooded: the next message is taken after the first was read."""
    box = Mailbox()
    assert (True, []) == box.exchange("a", {"n": 1})
    box.send("a", {"do": "stop"})
    assert (False, [{"do": "stop"}]) == box.exchange("a", {"n": 2})
    assert {"a": {"n": 1}} == box.collect()
    assert (True, []) == box.exchange("a", {"n": 2})
    assert (False, []) == box.exchange("b", None)


def test_ends_are_told_in_words() -> None:
    """A code, a signal and the last line of the output say how a worker ended."""
    assert "its worker had nothing left to do" == reason_of({"code": 0, "tail": "x"})
    assert "its worker was killed by signal 9" == reason_of({"code": -9, "tail": "\n"})
    assert "its worker ended with code 2: no" == reason_of({"code": 2, "tail": "a\n no \n\n"})


class Command:
    """Plays the command at the other end of a mailbox, in the same process."""

    def __init__(self, experiment: ExperimentPaths, letter: Message) -> None:
        self.experiment = experiment
        self.box = Mailbox()
        self.begun: Message = {}
        self.result: Message = {}
        self.intakes = {run: Intake(experiment.run(run), "job", 0) for run in ("a", "b")}
        self.thread = threading.Thread(target=self._execute, args=(letter,), daemon=True)
        self.thread.start()

    def _execute(self, letter: Message) -> None:
        self.result = execute(letter, lambda message: self.box.exchange("job", message))

    def serve(self, until: Callable[[], bool]) -> None:
        """Take in what comes until something is so, or the job has ended."""
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
            self.begun = message
            runs = [self.experiment.run(run) for run in self.intakes]
            parcel = pack(uploaded_files(self.experiment, runs))
            self.box.send("job", {"do": "begin", "runs": ["a", "b"], "parcel": parcel})
        else:
            self.intakes[message["run"]].take_in(message["parcel"], message.get("kept"))


@pytest.fixture
def letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Message:
    """What a task is asked, for a folder with two runs; it looks often at its worker."""
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
    """The command of a worker that plays."""
    return [sys.executable, str(HERE / "ray_worker.py"), str(steps), str(seconds), str(code)]


def command(letter: Message, **changes: Any) -> Command:
    """A command whose job has begun."""
    return Command(ExperimentPaths(Path(letter["experiment"])), {**letter, **changes})


def test_a_node_that_sees_the_folder_works_in_it(letter: Message) -> None:
    """Where the token is, the worker gets the list and nothing travels."""
    told = command(letter)
    told.serve(until=lambda: False)
    assert {"begun": True, "shared": True} == told.begun
    assert {"code": 0, "tail": "the worker's last words\n"} == told.result
    assert [2, 1] == checkpoint_steps(told.experiment.run("b"))


@pytest.mark.parametrize("shared", ["auto", False])
def test_runs_come_back_from_a_node_that_does_not(letter: Message, shared: object) -> None:
    """With another token, or none looked for, runs are executed apart and arrive complete."""
    told = command(letter, shared=shared, token="another")
    told.serve(until=lambda: False)
    assert not told.begun["shared"]
    assert 0 == told.result["code"]
    for run in ("a", "b"):
        paths = told.experiment.run(run)
        assert [2, 1] == checkpoint_steps(paths)
        assert paths.model.read_bytes() == b"model"
        assert paths.attempt(1).journal.read_text().endswith('{"event":"ended"}\n')


def test_an_interpreter_that_is_not_there_is_replaced(letter: Message) -> None:
    """A node that has its Python elsewhere starts the worker with that of its task."""
    arguments = ["/nowhere/python", *letter["worker"][1:]]
    told = command(letter, worker=arguments)
    told.serve(until=lambda: False)
    assert 0 == told.result["code"]


def test_stopping_leaves_what_was_made(letter: Message) -> None:
    """A job that is asked to end sends its worker SIGTERM, and the last of its files arrives."""
    told = command(letter, shared=False, worker=worker(1000, 0.1, 0))
    a = told.experiment.run("a")
    told.serve(until=a.attempt(1).journal.exists)
    told.box.send("job", {"do": "stop"})
    told.serve(until=lambda: False)
    assert 143 == told.result["code"]
    steps = checkpoint_steps(a)
    assert steps
    assert a.attempt(1).journal.read_text().count("\n") >= steps[0] - 1


def test_a_worker_that_will_not_end_is_killed(letter: Message, tmp_path: Path) -> None:
    """After its grace, or at once where that is asked, the worker is ended."""
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path / 'up')!r}).touch()\n"
        "time.sleep(100)\n"
    )
    told = command(letter, worker=[sys.executable, str(stubborn)], grace=0.5)
    told.serve(until=(tmp_path / "up").exists)
    told.box.send("job", {"do": "stop"})
    told.serve(until=lambda: False)
    assert -signal.SIGKILL == told.result["code"]


def test_a_request_to_stop_reaches_a_run_apart(letter: Message) -> None:
    """What is asked in a run's folder here ends the run there, and the next one begins."""
    told = command(letter, shared=False, worker=worker(20, 0.2, 0))
    a, b = told.experiment.run("a"), told.experiment.run("b")
    told.serve(until=a.attempt(1).journal.exists)
    told.box.send("job", {"do": "ask", "run": "a", "stop": "{}"})
    told.serve(until=b.attempt(1).journal.exists)
    assert a.attempt(1).journal.read_text().count("\n") < 20
    told.box.send("job", {"do": "kill"})
    told.serve(until=lambda: False)
    assert -signal.SIGKILL == told.result["code"]


def test_folders_of_nodes_are_not_left(
    letter: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary folder of a job is gone with it."""
    location = tmp_path / "temporary"
    location.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(location))
    told = command(letter, shared=False)
    told.serve(until=lambda: bool(list(location.glob("rlexp-node-*"))))
    told.serve(until=lambda: False)
    assert [] == list(location.iterdir())
