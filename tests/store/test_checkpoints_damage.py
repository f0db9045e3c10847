"""A checkpoint that is damaged, or was never one, is refused in one line; the one before is read."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkpoint_samples import (
    ABOUT,
    checkpoint,
    only_second,
    publish_up_to,
    read_whole,
    refusal,
    usable,
)
from in_full import IN_FULL

from rlexp.store.checkpoints import checkpoint_steps, discard_after, publish_checkpoint
from rlexp.store.layout import RunPaths
from rlexp.store.manifest import MANIFEST, _with_sum

DEEP = 100_000
HUGE = 10**30
DIGEST = "0" * 64
PLACES = 100 if IN_FULL else 20
"""Where each file is damaged."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints, which every test has a copy of."""
    folder = tmp_path_factory.mktemp("published") / "run"
    publish_up_to(RunPaths(folder), 200)
    return folder


@pytest.fixture
def paths(published: Path, tmp_path: Path) -> RunPaths:
    """A run with two checkpoints."""
    return RunPaths(Path(shutil.copytree(published, tmp_path / "run", symlinks=True)))


@contextmanager
def changed(path: Path, content: bytes) -> Iterator[None]:
    """Give a file other content for a while."""
    before = path.read_bytes()
    path.write_bytes(content)
    yield
    path.write_bytes(before)


def test_a_file_cut_anywhere_is_refused(paths: RunPaths) -> None:
    """Each file, at even distances and at both ends: it is named, the one before is read."""
    for path in only_second(paths):
        content = path.read_bytes()
        even = {len(content) * part // PLACES for part in range(PLACES)}
        for length in {*even, 1, len(content) - 1}:
            with changed(path, content[:length]):
                assert f"{path} is damaged" in refusal(paths, 200)
        assert [200, 100] == usable(paths)


def test_a_single_flipped_bit_is_refused(paths: RunPaths) -> None:
    """Each file, at many random places, the manifest's included."""
    places = random.Random(5)
    for path in only_second(paths):
        content = path.read_bytes()
        for _ in range(PLACES):
            flipped = bytearray(content)
            flipped[places.randrange(len(content))] ^= 1 << places.randrange(8)
            with changed(path, bytes(flipped)):
                assert str(path) in refusal(paths, 200)
        assert [200, 100] == usable(paths)


def test_a_file_that_grew_is_refused(paths: RunPaths) -> None:
    """A file with appended bytes is refused."""
    for path in only_second(paths):
        with changed(path, path.read_bytes() + b"\n"):
            assert f"{path} is damaged" in refusal(paths, 200)


def test_a_missing_file_is_refused(paths: RunPaths) -> None:
    """A missing file is named; a folder without a manifest is no checkpoint."""
    for path in only_second(paths):
        away = path.rename(paths.folder / "away")
        assert f"{paths.checkpoints / '200' if path.name == MANIFEST else path} is missing" in (
            refusal(paths, 200)
        )
        assert [100] == usable(paths)
        away.rename(path)


def test_a_damaged_checkpoint_goes_when_the_one_before_is_continued_from(paths: RunPaths) -> None:
    """Continuing from the earlier checkpoint removes the damaged newer one."""
    (paths.checkpoints / "200" / "model.zip").write_bytes(b"")
    discard_after(paths, 100)
    assert [100] == checkpoint_steps(paths)
    publish_checkpoint(paths, checkpoint(200), ABOUT)
    assert [200, 100] == usable(paths)


def test_checkpoints_with_a_damaged_manifest_do_not_count_as_kept(paths: RunPaths) -> None:
    """The last two that are whole stay, with what they need."""
    (paths.checkpoints / "200" / MANIFEST).write_bytes(b"{")
    whole = checkpoint(300, learns_from=False)
    publish_checkpoint(paths, whole, ABOUT)
    assert [300, 100] == checkpoint_steps(paths)
    assert read_whole(paths, 100)


def rewritten(paths: RunPaths, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the newest manifest and give it a right sum, as somebody hostile would."""
    path = paths.checkpoints / "200" / MANIFEST
    document = json.loads(path.read_bytes())
    del document["sum"]
    change(document)
    path.write_bytes(_with_sum(document))


def named(name: object) -> Callable[[dict[str, Any]], object]:
    """Another name for a file."""
    return lambda document: document["files"].update({name: document["files"].pop("model.zip")})


def chunk(**changes: object) -> Callable[[dict[str, Any]], object]:
    """Another last stretch of experience."""
    return lambda document: document["transitions"][-1].update(changes)


outside = pytest.mark.parametrize(
    "name",
    [
        "../../secret",
        "/etc/passwd",
        "a/../b",
        "..",
        ".",
        "",
        "a\0b",
        "-rf/",
        "a\\b",
        "manifest.json",
    ],
)


@outside
def test_a_file_outside_the_folder_is_refused(paths: RunPaths, name: str) -> None:
    """A manifest that names a file outside the checkpoint is refused."""
    (paths.folder / "secret").write_bytes(b"")
    rewritten(paths, named(name))
    assert "is no file's name" in refusal(paths, 200)


@outside
def test_a_chunk_outside_the_folder_is_refused(paths: RunPaths, name: str) -> None:
    """A manifest that names a chunk outside the replay folder is refused."""
    rewritten(paths, chunk(name=name))
    assert "is no chunk's name" in refusal(paths, 200)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(schema=2),
        lambda document: document.update(schema="1"),
        lambda document: document.update(schema=True),
        lambda document: document.update(about=[]),
        lambda document: document.update(about=None),
        lambda document: document.update(about={}),
        lambda document: document.update(about={"run": ["x"]}),
        lambda document: document.update(files=[]),
        lambda document: document.update(files={"model.zip": None}),
        lambda document: document.update(files={"model.zip": []}),
        lambda document: document.update(files={"model.zip": {}}),
        lambda document: document.update(files={"model.zip": {"sha256": 0, "bytes": 0}}),
        lambda document: document.update(files={"model.zip": {"sha256": "0", "bytes": 0}}),
        lambda document: document.update(files={"model.zip": {"sha256": DIGEST, "bytes": -1}}),
        lambda document: document.update(files={"model.zip": {"sha256": DIGEST, "bytes": HUGE}}),
        lambda document: document.update(files={"model.zip": {"sha256": DIGEST, "bytes": 2**62}}),
        lambda document: document.update(oldest=201),
        lambda document: document.update(transitions={}),
        lambda document: document.update(transitions=[0]),
        lambda document: document.update(transitions=[], oldest=1),
        lambda document: document["transitions"].reverse(),
        lambda document: document["transitions"].append(document["transitions"][-1]),
        lambda document: document["transitions"].pop(0),
        chunk(begin=200, name="200-200.npz"),
        chunk(begin=150, name="150-200.npz"),
        chunk(end=10**18, name=f"100-{10**18}.npz"),
        chunk(bytes=2**62),
        chunk(sha256=None),
        lambda document: document.update(resumable=1),
        lambda document: document.pop("resumable"),
        lambda document: document.clear(),
    ],
)
def test_a_manifest_of_wrong_values_is_refused(
    paths: RunPaths, change: Callable[[dict[str, Any]], object]
) -> None:
    """A manifest with invalid values is refused even if its checksum is right."""
    rewritten(paths, change)
    assert str(paths.folder) in refusal(paths, 200)
    assert [100] == usable(paths)
    discard_after(paths, 100)
    publish_checkpoint(paths, checkpoint(200), ABOUT)
    assert [200, 100] == usable(paths)


@pytest.mark.parametrize("value", ["200", 200.0, -1, HUGE, None, True, [], {}])
@pytest.mark.parametrize("key", ["step", "oldest"])
def test_what_is_no_count_is_refused(paths: RunPaths, key: str, value: object) -> None:
    """A count in a manifest must be a whole number that fits 64 bits."""
    rewritten(paths, lambda document: document.update({key: value}))
    assert f"{MANIFEST} is damaged: {value!r} is no count" in refusal(paths, 200)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"1" * 5000,
        b"[" * DEEP,
        b'{"schema": 1, "about": ' + b"[" * DEEP,
        b'{"schema": 1, "step": NaN}',
        b'{"schema": 1, "step": 1e999}',
        b'{"schema": 1, "schema": 1}',
        b"\xff\xfe\x00",
        b"\0" * 4096,
        b"PK\x03\x04",
    ],
)
def test_a_manifest_that_is_none_is_refused(paths: RunPaths, content: bytes) -> None:
    """A file that is no manifest is refused quickly."""
    (paths.checkpoints / "200" / MANIFEST).write_bytes(content)
    assert f"{MANIFEST} is damaged" in refusal(paths, 200)
    assert [100] == usable(paths)


def test_a_file_where_a_checkpoint_would_be_is_no_obstacle(paths: RunPaths) -> None:
    """A file with a checkpoint's name is replaced by the checkpoint."""
    (paths.checkpoints / "300").write_text("not a folder")
    assert [200, 100] == usable(paths)
    publish_checkpoint(paths, checkpoint(300), ABOUT)
    assert [300, 200] == usable(paths)
