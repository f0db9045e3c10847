"""Publishing: a reader meets the old file or the new one, whenever the writer dies."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.errors import RecordError
from rlexp.store.files import (
    probe_writable,
    publish,
    publish_json,
    publish_with,
    read_json,
)
from rlexp.store.schemas import OTHER

STRACE = shutil.which("strace")


def execute(code: str, path: Path, *before: str) -> subprocess.CompletedProcess[bytes]:
    """Run code in a fresh process, with `path` as a variable."""
    text = f"from pathlib import Path\npath = Path({str(path)!r})\n{dedent(code)}"
    return subprocess.run(
        [*before, sys.executable, "-c", text],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with an old content, in a folder with an odd name."""
    path = tmp_path / "a'; echo foo" / "result.json"
    path.parent.mkdir()
    path.write_text("old")
    return path


def test_what_is_published_is_there(path: Path) -> None:
    """The new content replaces the old, and nothing else is left behind."""
    publish(path, b"new")
    assert (b"new", [path]) == (path.read_bytes(), list(path.parent.iterdir()))


def test_missing_folders_are_made(tmp_path: Path) -> None:
    """A checkpoint's folder comes with its first file."""
    publish(tmp_path / "a" / "b" / "c", b"x")
    assert b"x" == (tmp_path / "a" / "b" / "c").read_bytes()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_exception_leaves_the_old_file_and_no_other(
    path: Path, error: type[BaseException]
) -> None:
    """Whatever goes wrong while writing, readers notice nothing."""

    def write(temporary: Path) -> None:
        temporary.write_text("half")
        raise error

    with pytest.raises(error):
        publish_with(path, write)
    assert ("old", [path]) == (path.read_text(), list(path.parent.iterdir()))


def test_a_writer_that_writes_nothing_is_an_error(path: Path) -> None:
    """The old file stays when there is no new one."""
    with pytest.raises(FileNotFoundError):
        publish_with(path, lambda _: None)
    assert ("old", [path]) == (path.read_text(), list(path.parent.iterdir()))


def test_the_temporary_file_is_hidden_beside_the_target_with_its_ending(path: Path) -> None:
    """Some libraries add an ending of their own to a name without it."""
    seen: list[Path] = []

    def write(temporary: Path) -> None:
        seen.append(temporary)
        temporary.write_bytes(b"")

    publish_with(path, write)
    publish_with(path, write)
    assert {path.parent} == {temporary.parent for temporary in seen}
    assert all(re.fullmatch(r"\..+\.json", temporary.name) for temporary in seen)
    assert 2 == len(set(seen))


def test_kill_while_writing_leaves_the_old_file(path: Path) -> None:
    """A process that is killed in the middle of a file has published nothing."""
    done = execute(
        """
        import os, signal
        from rlexp.store.files import publish_with

        def write(temporary):
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

        publish_with(path, write)
        """,
        path,
    )
    assert (-signal.SIGKILL, "old") == (done.returncode, path.read_text())
    publish(path, b"new")
    assert b"new" == path.read_bytes()


PUBLISH = "from rlexp.store.files import publish; publish(path, b'new')"


def _traced() -> bool:
    """Whether processes may be traced here."""
    command = [STRACE or "", "-o", os.devnull, "true"]
    return STRACE is not None and subprocess.run(command, check=False).returncode == 0


traced = pytest.mark.skipif(not _traced(), reason="strace is missing or may not trace")


@traced
@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_kill_before_the_rename_leaves_the_old_file(path: Path, call: str) -> None:
    """Killed at the first fsync or at the rename itself, the process has published nothing."""
    trace = path.with_name("trace")
    inject = f"inject={call}:signal=KILL:when=1"
    arguments = (STRACE or "", "-f", "-o", str(trace), "-e", f"trace={call}", "-e", inject)
    done = execute(PUBLISH, path, *arguments)
    assert "killed by SIGKILL" in trace.read_text()
    assert (0, "old") != (done.returncode, path.read_text())
    assert "old" == path.read_text()


@traced
def test_content_is_durable_before_its_name_and_the_name_after(path: Path) -> None:
    """File synced, then renamed, then folder synced: in this order a power cut loses nothing."""
    trace = path.with_name("trace")
    arguments = (STRACE or "", "-f", "-y", "-o", str(trace), "-e", "trace=fsync,rename")
    execute(PUBLISH, path, *arguments)
    calls = re.findall(r"(fsync|rename)\((?:\d+<([^>]*)>)?", trace.read_text())
    assert [("fsync", ".json"), ("rename", ""), ("fsync", "")] == [
        (call, Path(name).suffix) for call, name in calls
    ]
    assert str(path.parent) == calls[2][1]


@traced
def test_a_failing_disk_leaves_the_old_file_and_no_other(path: Path) -> None:
    """An fsync that fails means that nothing was published."""
    arguments = (STRACE or "", "-f", "-o", os.devnull, "-e", "inject=fsync:error=EIO:when=1")
    done = execute(PUBLISH, path, *arguments)
    assert (1, "old") == (done.returncode, path.read_text())
    assert [path] == list(path.parent.iterdir())


texts = st.text(st.characters(exclude_categories=()), max_size=20)
document = st.dictionaries(
    texts.filter(lambda key: key != "schema"),
    st.none() | st.integers() | texts | st.floats(allow_nan=False, allow_infinity=False),
)


@given(document)
def test_a_mapping_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, mapping: dict[str, object]
) -> None:
    """Also with surrogates, control characters and numbers of any size in it."""
    path = tmp_path_factory.getbasetemp() / "mapping.json"
    publish_json(path, mapping)
    assert path.read_bytes().decode()
    assert mapping == read_json(path)


def test_json_says_its_schema(path: Path) -> None:
    """The schema and the version of rlexp stand first, for readers of other versions."""
    publish_json(path, {"b": 1, "ä": 2})
    assert {**OTHER.head(), "b": 1, "ä": 2} == json.loads(path.read_text())
    assert path.read_text().startswith('{\n "schema": 1,\n "rlexp": "')


def test_nan_is_never_published(path: Path) -> None:
    """JSON has no NaN: other tools could not read the file."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        publish_json(path, {"loss": float("nan")})
    assert ("old", [path]) == (path.read_text(), list(path.parent.iterdir()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b'{"schema": 1', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "is not of schema version 1"),
        (b"null", "is not of schema version 1"),
        (b"{}", "is not of schema version 1"),
        (b'{"schema": 0}', "is not of schema version 1"),
        (b'{"schema": "1"}', "is not of schema version 1"),
    ],
)
def test_a_file_that_is_no_record_is_named(path: Path, content: bytes, message: str) -> None:
    """Damaged, or of another version: one line with the file's name."""
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message) as caught:
        read_json(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """What is not there is said not to be there."""
    with pytest.raises(RecordError, match=r"none\.json is missing"):
        read_json(tmp_path / "none.json")


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    """It cannot be read as a record."""
    with pytest.raises(RecordError, match="cannot be read"):
        read_json(tmp_path)


def test_a_writable_folder_is_left_as_it_was(tmp_path: Path) -> None:
    """Looking leaves nothing behind but the folder."""
    probe_writable(tmp_path / "runs")
    assert [] == list((tmp_path / "runs").iterdir())


def test_an_unwritable_folder_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """With the reason, and the way out."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "runs", Path("/proc/rlexp")):
        with pytest.raises(RecordError, match=r"cannot write to .*RLEXP_RUNS"):
            probe_writable(folder)
