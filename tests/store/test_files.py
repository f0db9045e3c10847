"""Published files: a reader gets the old file or the new one, whenever the writer dies."""

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


def execute(code: str, path: Path, *prefix: str) -> subprocess.CompletedProcess[bytes]:
    """Run code in a new process, with `path` as a variable."""
    text = f"from pathlib import Path\npath = Path({str(path)!r})\n{dedent(code)}"
    return subprocess.run(
        [*prefix, sys.executable, "-c", text],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with old content in a folder with an odd name."""
    path = tmp_path / "a'; echo foo" / "result.json"
    path.parent.mkdir()
    path.write_text("old")
    return path


def test_published_content_replaces_the_old(path: Path) -> None:
    """The new content replaces the old one, and no other file remains."""
    publish(path, b"new")
    assert (b"new", [path]) == (path.read_bytes(), list(path.parent.iterdir()))


def test_missing_folders_are_made(tmp_path: Path) -> None:
    """Missing folders above a published file are created."""
    publish(tmp_path / "a" / "b" / "c", b"x")
    assert b"x" == (tmp_path / "a" / "b" / "c").read_bytes()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_exception_leaves_the_old_file_and_no_other(
    path: Path, error: type[BaseException]
) -> None:
    """After an exception while writing, the old file stays and no other file remains."""

    def write(temporary: Path) -> None:
        temporary.write_text("half")
        raise error

    with pytest.raises(error):
        publish_with(path, write)
    assert ("old", [path]) == (path.read_text(), list(path.parent.iterdir()))


def test_a_writer_that_writes_nothing_is_an_error(path: Path) -> None:
    """A writer that creates no file is an error, and the old file stays."""
    with pytest.raises(FileNotFoundError):
        publish_with(path, lambda _: None)
    assert ("old", [path]) == (path.read_text(), list(path.parent.iterdir()))


def test_the_temporary_file_is_hidden_beside_the_target_with_its_ending(path: Path) -> None:
    """The temporary file is hidden and has the target's ending, which some libraries need."""
    temporary_paths: list[Path] = []

    def write(temporary: Path) -> None:
        temporary_paths.append(temporary)
        temporary.write_bytes(b"")

    publish_with(path, write)
    publish_with(path, write)
    assert {path.parent} == {temporary.parent for temporary in temporary_paths}
    assert all(re.fullmatch(r"\..+\.json", temporary.name) for temporary in temporary_paths)
    assert 2 == len(set(temporary_paths))


def test_kill_while_writing_leaves_the_old_file(path: Path) -> None:
    """A process that is killed while writing has published nothing."""
    process = execute(
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
    assert (-signal.SIGKILL, "old") == (process.returncode, path.read_text())
    publish(path, b"new")
    assert b"new" == path.read_bytes()


PUBLISH = "from rlexp.store.files import publish; publish(path, b'new')"


def _can_trace() -> bool:
    """Whether strace may trace processes on this machine."""
    command = [STRACE or "", "-o", os.devnull, "true"]
    return STRACE is not None and subprocess.run(command, check=False).returncode == 0


needs_strace = pytest.mark.skipif(not _can_trace(), reason="strace is missing or may not trace")


@needs_strace
@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_kill_before_the_rename_leaves_the_old_file(path: Path, call: str) -> None:
    """A process that is killed at its first fsync or rename has published nothing."""
    trace = path.with_name("trace")
    inject = f"inject={call}:signal=KILL:when=1"
    arguments = (STRACE or "", "-f", "-o", str(trace), "-e", f"trace={call}", "-e", inject)
    process = execute(PUBLISH, path, *arguments)
    assert "killed by SIGKILL" in trace.read_text()
    assert (0, "old") != (process.returncode, path.read_text())
    assert "old" == path.read_text()


@needs_strace
def test_content_is_durable_before_its_name_and_the_name_after(path: Path) -> None:
    """The file is synced, then renamed, then its folder is synced, so that a power cut is safe."""
    trace = path.with_name("trace")
    arguments = (STRACE or "", "-f", "-y", "-o", str(trace), "-e", "trace=fsync,rename")
    execute(PUBLISH, path, *arguments)
    calls = re.findall(r"(fsync|rename)\((?:\d+<([^>]*)>)?", trace.read_text())
    assert [("fsync", ".json"), ("rename", ""), ("fsync", "")] == [
        (call, Path(name).suffix) for call, name in calls
    ]
    assert str(path.parent) == calls[2][1]


@needs_strace
def test_a_failing_disk_leaves_the_old_file_and_no_other(path: Path) -> None:
    """If fsync fails, the old file stays and no other file remains."""
    arguments = (STRACE or "", "-f", "-o", os.devnull, "-e", "inject=fsync:error=EIO:when=1")
    process = execute(PUBLISH, path, *arguments)
    assert (1, "old") == (process.returncode, path.read_text())
    assert [path] == list(path.parent.iterdir())


texts = st.text(st.characters(exclude_categories=()), max_size=20)
document = st.dictionaries(
    texts.filter(lambda key: key not in OTHER.head()),
    st.none() | st.integers() | texts | st.floats(allow_nan=False, allow_infinity=False),
)


@given(document)
def test_a_mapping_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, mapping: dict[str, object]
) -> None:
    """Any mapping is read back unchanged, even with surrogates and control characters."""
    path = tmp_path_factory.getbasetemp() / "mapping.json"
    publish_json(path, mapping)
    assert path.read_bytes().decode()
    assert mapping == read_json(path)


def test_json_says_its_schema(path: Path) -> None:
    """The schema and the version of rlexp are the first keys of a JSON file."""
    publish_json(path, {"b": 1, "ä": 2})
    assert {**OTHER.head(), "b": 1, "ä": 2} == json.loads(path.read_text())
    assert path.read_text().startswith('{\n "schema": 1,\n "rlexp": "')


@pytest.mark.parametrize("key", ["schema", "rlexp"])
def test_a_document_cannot_replace_the_schema(path: Path, key: str) -> None:
    """A document with a key of the schema is refused, because a reader would lose that key."""
    with pytest.raises(ValueError, match=f"'{key}' belongs to the schema"):
        publish_json(path, {key: None})
    assert ("old", [path]) == (path.read_text(), list(path.parent.iterdir()))


def test_nan_is_never_published(path: Path) -> None:
    """NaN is refused, because other tools could not read the file."""
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
def test_a_damaged_record_is_named(path: Path, content: bytes, message: str) -> None:
    """The error about a damaged record is one line that names the file."""
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message) as caught:
        read_json(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error about a missing file names the file."""
    with pytest.raises(RecordError, match=r"none\.json is missing"):
        read_json(tmp_path / "none.json")


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    """A folder in place of a record gives an error."""
    with pytest.raises(RecordError, match="cannot be read"):
        read_json(tmp_path)


def test_a_writable_folder_is_left_as_it_was(tmp_path: Path) -> None:
    """Checking that a folder is writable leaves no file in it."""
    probe_writable(tmp_path / "runs")
    assert [] == list((tmp_path / "runs").iterdir())


def test_an_unwritable_folder_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """The error about an unwritable folder names RLEXP_RUNS, which sets another folder."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "runs", Path("/proc/rlexp")):
        with pytest.raises(RecordError, match=r"cannot write to .*RLEXP_RUNS"):
            probe_writable(folder)
