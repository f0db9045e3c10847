"""Links under `runs/` that lead elsewhere: no file is read or written through them."""

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from samples import spec

from rlexp.app.evaluation.playback import Policy, check_archives
from rlexp.errors import RecordError
from rlexp.exchange.optuna_study import JournalFile
from rlexp.records.events import Ending, StopRequest
from rlexp.store.files import append_line, parse_json, publish_json, read_file, read_json
from rlexp.store.journal import read_journal
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import hold, holding
from rlexp.store.runs import new_attempt, request_stop, write_run

PRIVATE = '{"schema": 1, "private": true}\n'


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder that must not change; after the test it is compared."""
    folder = tmp_path / "outside"
    (folder / "64").mkdir(parents=True)
    (folder / "private.json").write_text(PRIVATE)
    (folder / "64" / "data").write_text(PRIVATE)
    yield folder
    names = {str(p.relative_to(folder)) for p in folder.rglob("*")}
    assert {"private.json", "64", "64/data"} == names
    assert {PRIVATE} == {p.read_text() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """An empty folder of a run."""
    paths = ExperimentPaths(tmp_path / "runs" / "sample").run(spec().name)
    paths.folder.mkdir(parents=True)
    return paths


READERS: dict[str, Callable[[Path], object]] = {
    "JSON": read_json,
    "a file": read_file,
    "a journal": read_journal,
}


@pytest.mark.parametrize("reader", READERS)
def test_no_file_is_read_through_a_link(reader: str, outside: Path, tmp_path: Path) -> None:
    """A reader refuses a link that leads to a file outside `runs/`."""
    link = tmp_path / "link"
    link.symlink_to(outside / "private.json")
    with pytest.raises((RecordError, OSError), match="link"):
        READERS[reader](link)


def hold_it(path: Path) -> None:
    """Hold a lock, and check that it has a holder."""
    with hold(path, "it", now=time.time()):
        assert holding(path)


def take_turn(path: Path) -> None:
    """Take the turn to write to a mirror."""
    with JournalFile(path).lock():
        pass


WRITERS: dict[str, Callable[[Path], object]] = {
    "publishing": lambda path: publish_json(path, {"x": 1}),
    "a request": lambda path: request_stop(
        RunPaths(path.parent), StopRequest(Ending.INTERRUPTED, "x")
    ),
    "a lock": hold_it,
    "the holder of a lock": lambda path: hold_it(path.with_suffix("")),
    "a line": lambda path: append_line(path, b"{}"),
    "the mirror": lambda path: JournalFile(path).open(),
    "the turn of the mirror": lambda path: take_turn(path.with_suffix("")),
}
NAMES = {
    "a request": "stop",
    "the holder of a lock": ".lock.holder",
    "the turn of the mirror": "optuna.journal.turn",
}


@pytest.mark.parametrize("target", ["private.json", "new.json"])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_file_is_written_through_a_link(
    writer: str, target: str, outside: Path, tmp_path: Path
) -> None:
    """A writer replaces a link or refuses it, whether or not its target exists."""
    folder = tmp_path / "run"
    folder.mkdir()
    link = folder / NAMES.get(writer, "link.json")
    link.symlink_to(outside / target)
    refusal = None
    try:
        WRITERS[writer](link)
    except (RecordError, OSError) as error:
        refusal = str(error)
    assert link.is_symlink() is (refusal is not None and "link" in refusal)


@pytest.mark.parametrize("name", ["", "attempts", "checkpoints", "replay"])
def test_no_run_is_written_through_a_link(name: str, outside: Path, run: RunPaths) -> None:
    """A run is refused if its folder, or a folder in it, is a link."""
    link = run.folder / name if name else run.folder
    if not name:
        run.folder.rmdir()
    link.symlink_to(outside)
    with pytest.raises(RecordError, match="is a link, through which nothing is written"):
        write_run(run, spec())


def test_run_in_folders_is_written(outside: Path, run: RunPaths) -> None:
    """A run whose folders are real is written, so the refusals are due to the links."""
    for name in ("attempts", "checkpoints", "replay"):
        shutil.copytree(outside, run.folder / name)
    write_run(run, spec())
    assert 65 == new_attempt(run, {}, {}, "").number


@pytest.mark.parametrize("name", ["model.zip", "normalisation.npz"])
def test_no_policy_is_read_through_a_link(name: str, outside: Path, run: RunPaths) -> None:
    """A policy or a normalisation that is a link is refused."""
    (run.folder / name).symlink_to(outside / "private.json")
    policy = Policy(spec(), run.model, run.normalisation, 100, checkpoint=False, weights=None)
    with pytest.raises(RecordError, match="is a link out of the run's folder"):
        check_archives(policy, run)


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "nowhere", "itself", "device"])
def test_what_is_no_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    """A reader refuses what is no regular file and does not wait, even for a pipe."""
    path = tmp_path / "file.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "socket":
        path.symlink_to({"nowhere": "gone", "itself": str(path), "device": "/dev/zero"}[kind])
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    with pytest.raises(RecordError, match=r"file\.json cannot be read"):
        read_json(path)


@pytest.mark.parametrize(("levels", "fits"), [(100, True), (101, False), (500, False)])
def test_json_has_a_depth(levels: int, fits: bool) -> None:
    """JSON with more than 100 levels is refused, and many brackets on one level are read."""
    text = b"[" * levels + b"]" * levels
    if fits:
        parse_json(text)
    else:
        with pytest.raises(ValueError, match="more than 100 levels"):
            parse_json(text)
    # Many brackets on one level add no depth.
    assert 500 == len(parse_json(b"[" + b",".join([b"[]"] * 500) + b"]"))
