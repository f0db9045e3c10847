"""A damaged checkpoint is refused in one line, and the checkpoint before it can be read."""

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

from rlexp.store.checkpoints.checkpoint_files import (
    checkpoint_steps,
    discard_after,
    publish_checkpoint,
)
from rlexp.store.checkpoints.manifest import MANIFEST, _with_sum
from rlexp.store.layout import RunPaths

DEEP = 100_000
HUGE = 10**30
DIGEST = "0" * 64
POSITIONS = 100 if IN_FULL else 20
"""The number of positions at which each file is damaged."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints, which every test copies."""
    folder = tmp_path_factory.mktemp("published") / "run"
    publish_up_to(RunPaths(folder), 200)
    return folder


@pytest.fixture
def paths(published: Path, tmp_path: Path) -> RunPaths:
    """A copy of a run with two checkpoints."""
    return RunPaths(Path(shutil.copytree(published, tmp_path / "run", symlinks=True)))


@contextmanager
def changed_content(path: Path, content: bytes) -> Iterator[None]:
    """Give a file other content inside the block."""
    before = path.read_bytes()
    path.write_bytes(content)
    yield
    path.write_bytes(before)


def test_a_file_cut_anywhere_is_refused(paths: RunPaths) -> None:
    """A checkpoint with a cut file is refused by the name of the file."""
    for path in only_second(paths):
        content = path.read_bytes()
        lengths = {len(content) * part // POSITIONS for part in range(POSITIONS)}
        for length in {*lengths, 1, len(content) - 1}:
            with changed_content(path, content[:length]):
                assert f"{path} is damaged" in refusal(paths, 200)
        assert [200, 100] == usable(paths)


def test_a_single_flipped_bit_is_refused(paths: RunPaths) -> None:
    """A single flipped bit in any file, including the manifest, is refused."""
    generator = random.Random(5)
    for path in only_second(paths):
        content = path.read_bytes()
        for _ in range(POSITIONS):
            flipped = bytearray(content)
            flipped[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
            with changed_content(path, bytes(flipped)):
                assert str(path) in refusal(paths, 200)
        assert [200, 100] == usable(paths)


def test_a_file_that_grew_is_refused(paths: RunPaths) -> None:
    """A file with appended bytes is refused."""
    for path in only_second(paths):
        with changed_content(path, path.read_bytes() + b"\n"):
            assert f"{path} is damaged" in refusal(paths, 200)


def test_a_missing_file_is_refused(paths: RunPaths) -> None:
    """A missing file is named; a folder without a manifest is a missing checkpoint."""
    for path in only_second(paths):
        moved = path.rename(paths.folder / "away")
        assert f"{paths.checkpoints / '200' if path.name == MANIFEST else path} is missing" in (
            refusal(paths, 200)
        )
        assert [100] == usable(paths)
        moved.rename(path)


def test_a_damaged_checkpoint_is_removed_when_the_run_continues(paths: RunPaths) -> None:
    """Continuing from the earlier checkpoint removes the damaged newer one."""
    (paths.checkpoints / "200" / "model.zip").write_bytes(b"")
    discard_after(paths, 100)
    assert [100] == checkpoint_steps(paths)
    publish_checkpoint(paths, checkpoint(200), ABOUT)
    assert [200, 100] == usable(paths)


def test_checkpoints_with_a_damaged_manifest_do_not_count_as_kept(paths: RunPaths) -> None:
    """The two newest checkpoints with a valid manifest are kept, with their experience."""
    (paths.checkpoints / "200" / MANIFEST).write_bytes(b"{")
    on_policy = checkpoint(300, learns_from=False)
    publish_checkpoint(paths, on_policy, ABOUT)
    assert [300, 100] == checkpoint_steps(paths)
    assert read_whole(paths, 100)


def rewrite_manifest(paths: RunPaths, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the newest manifest and give it a correct checksum."""
    path = paths.checkpoints / "200" / MANIFEST
    document = json.loads(path.read_bytes())
    del document["sum"]
    change(document)
    path.write_bytes(_with_sum(document))


def rename_file(name: object) -> Callable[[dict[str, Any]], object]:
    """A change that gives a file of the manifest another name."""
    return lambda document: document["files"].update({name: document["files"].pop("model.zip")})


def change_chunk(**changes: object) -> Callable[[dict[str, Any]], object]:
    """A change of the last stretch of experience in the manifest."""
    return lambda document: document["transitions"][-1].update(changes)


names_outside = pytest.mark.parametrize(
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


@names_outside
def test_a_file_outside_the_folder_is_refused(paths: RunPaths, name: str) -> None:
    """A manifest that names a file outside the checkpoint is refused."""
    (paths.folder / "secret").write_bytes(b"")
    rewrite_manifest(paths, rename_file(name))
    assert "is no file's name" in refusal(paths, 200)


@names_outside
def test_a_chunk_outside_the_folder_is_refused(paths: RunPaths, name: str) -> None:
    """A manifest that names a chunk outside the replay folder is refused."""
    rewrite_manifest(paths, change_chunk(name=name))
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
        change_chunk(begin=200, name="200-200.npz"),
        change_chunk(begin=150, name="150-200.npz"),
        change_chunk(end=10**18, name=f"100-{10**18}.npz"),
        change_chunk(bytes=2**62),
        change_chunk(sha256=None),
        lambda document: document.update(resumable=1),
        lambda document: document.pop("resumable"),
        lambda document: document.clear(),
    ],
)
def test_a_manifest_of_wrong_values_is_refused(
    paths: RunPaths, change: Callable[[dict[str, Any]], object]
) -> None:
    """A manifest with invalid values is refused even if its checksum is right."""
    rewrite_manifest(paths, change)
    assert str(paths.folder) in refusal(paths, 200)
    assert [100] == usable(paths)
    discard_after(paths, 100)
    publish_checkpoint(paths, checkpoint(200), ABOUT)
    assert [200, 100] == usable(paths)


@pytest.mark.parametrize("value", ["200", 200.0, -1, HUGE, None, True, [], {}])
@pytest.mark.parametrize("key", ["step", "oldest"])
def test_invalid_counts_are_refused(paths: RunPaths, key: str, value: object) -> None:
    """A count in a manifest must be a whole number that fits 64 bits."""
    rewrite_manifest(paths, lambda document: document.update({key: value}))
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
def test_a_file_that_is_no_manifest_is_refused(paths: RunPaths, content: bytes) -> None:
    """A manifest that is no JSON object is refused."""
    (paths.checkpoints / "200" / MANIFEST).write_bytes(content)
    assert f"{MANIFEST} is damaged" in refusal(paths, 200)
    assert [100] == usable(paths)


def test_a_file_where_a_checkpoint_would_be_is_no_obstacle(paths: RunPaths) -> None:
    """A file with a checkpoint's name is replaced by the checkpoint."""
    (paths.checkpoints / "300").write_text("not a folder")
    assert [200, 100] == usable(paths)
    publish_checkpoint(paths, checkpoint(300), ABOUT)
    assert [300, 200] == usable(paths)
