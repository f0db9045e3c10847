"""A bundle may come from anybody: hostile archives are refused, on one line, before anything is written."""

import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from rlexp.errors import RecordError
from rlexp.store.bundles import bundle_archive
from rlexp.store.bundles.bundle_archive import stage_bundle, write_archive
from rlexp.store.bundles.bundle_manifest import (
    BundledFile,
    BundledLedger,
    BundleManifest,
    CitedAuthor,
    DeclaredStudy,
    check_path,
    decode_bundle,
)

CONTENT = b"a record\n"


def manifest(*files: BundledFile) -> BundleManifest:
    """A manifest of some files."""
    return BundleManifest(
        writer="0.1.0",
        ledgers=(BundledLedger("alpha", "a" * 64), BundledLedger("beta", None)),
        looks="b" * 64,
        protocols=None,
        reports=(),
        versions={"numpy": "2.1.0"},
        requirements=("torch",),
        wheel=None,
        code=False,
        declared=DeclaredStudy(
            title="T", authors=(CitedAuthor("Ada"),), license=None, published="2027-01-31"
        ),
        files=files,
    )


def listed(*paths: str) -> bytes:
    """The text of a manifest that lists these paths."""
    document = json.loads(manifest().encode())
    sums = {"bytes": len(CONTENT), "sha256": sha256(CONTENT).hexdigest()}
    document["files"] = dict.fromkeys(paths, sums)
    return json.dumps(document).encode()


def archive(path: Path, *paths: str, text: bytes | None = None) -> Path:
    """An archive of a manifest and of files with `CONTENT`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bundle.json", listed(*paths) if text is None else text)
        for name in paths:
            opened.writestr(name, CONTENT)
    return path


def staged(path: Path, folder: Path) -> bundle_archive.StagedBundle:
    """Stage a bundle into a new folder beside others."""
    target = folder / "staged"
    target.mkdir()
    return stage_bundle(path, target)


def refused(path: Path, folder: Path) -> str:
    """The one line with which a bundle is refused; nothing outside of the target was written."""
    before = set(folder.rglob("*"))
    with pytest.raises(RecordError) as error:
        staged(path, folder)
    outside = {p for p in folder.rglob("*") if (folder / "staged") not in {p, *p.parents}}
    assert outside == before
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_intact_archive_is_copied(tmp_path: Path) -> None:
    """Every file is in the target with its content, and nothing differs."""
    result = staged(archive(tmp_path / "a.zip", "runs/a/b.json", "README.md"), tmp_path)
    assert ((), (), ()) == (result.missing, result.changed, result.added)
    assert CONTENT == (tmp_path / "staged/runs/a/b.json").read_bytes()
    assert sha256((tmp_path / "a.zip").read_bytes()).hexdigest() == result.archive_sum


def test_a_manifest_is_read_as_it_was_written() -> None:
    """Encoding and decoding give the same manifest."""
    written = manifest(BundledFile("runs/a", 3, "c" * 64), BundledFile("z", 0, "d" * 64))
    assert written == decode_bundle(written.encode())


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../x", "a/../../x", "a//b", "a\\b", "", ".", "a/", "C:\\x", "a/.hidden"),
        *("runs/.catalogue", "x\0y", "x\ny", "a" * 300, "/".join("a" * 600), "\x1b[2J"),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, path: str) -> None:
    """Neither an entry nor a line of the manifest may lead out of the bundle, or be hidden."""
    with pytest.raises(RecordError, match="is not the path of a file of a bundle"):
        check_path(path)
    if path and "\0" not in path and not path.endswith("/"):
        refused(archive(tmp_path / "a.zip", path), tmp_path)
    refused(archive_with_text(tmp_path, path), tmp_path / "other")


def archive_with_text(folder: Path, path: str) -> Path:
    """An archive whose manifest alone names a path."""
    (folder / "other").mkdir(exist_ok=True)
    return archive(folder / "other/b.zip", text=listed(path))


def with_link(path: Path) -> None:
    """Write an archive with a symbolic link."""
    entry = zipfile.ZipInfo("runs")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("bundle.json", listed("runs"))
        opened.writestr(entry, "/etc")


def with_a_name_twice(path: Path) -> None:
    """Write an archive with two files of one name."""
    archive(path, "README.md")
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as opened:
        opened.writestr("README.md", b"another")


def with_a_file_in_a_file(path: Path) -> None:
    """Write an archive in which a file is also a folder."""
    archive(path, "runs", "runs/a")


def encrypted(path: Path) -> None:
    """Mark every entry as encrypted."""
    content = bytearray(archive(path, "README.md").read_bytes())
    at = 0
    while (at := content.find(b"PK\x01\x02", at)) >= 0:
        content[at + 8] |= 1
        at += 1
    path.write_bytes(content)


def compressed_in_another_way(path: Path) -> None:
    """Write an archive with another method of compression."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as opened:
        opened.writestr("bundle.json", listed())


def overlapping(path: Path) -> None:
    """Let a hundred entries share the bytes of one file, as a zip bomb does."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bundle.json", listed())
        opened.writestr("x000", os.urandom(1000))
    content = packed.getvalue()
    start = content.index(b"PK\x01\x02", content.index(b"x000"))
    end = content.rindex(b"PK\x05\x06")
    directory = content[start:end]
    first, second = directory.index(b"x000") - 46, len(directory)
    entry = directory[first:second]
    entries = directory + b"".join(entry.replace(b"x000", b"x%03d" % n) for n in range(1, 100))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 101, 101, len(entries), start, 0)
    path.write_bytes(content[:start] + entries + tail)


def cut_off(path: Path) -> None:
    """Cut the second half of an archive off."""
    content = archive(path, "README.md", "runs/a").read_bytes()
    path.write_bytes(content[: len(content) // 2])


def damaged(path: Path) -> None:
    """Change a byte of the content of the manifest."""
    content = bytearray(archive(path, "README.md").read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)


HOSTILE: list[tuple[Callable[[Path], object], str]] = [
    (with_link, "is a link or no file"),
    (with_a_name_twice, "holds 'README.md' twice"),
    (with_a_file_in_a_file, "lies in a file of the bundle"),
    (encrypted, "is encrypted or compressed in another way"),
    (compressed_in_another_way, "is encrypted or compressed in another way"),
    (overlapping, "overlap"),
    (cut_off, "is no zip archive, or is damaged or cut off"),
    (damaged, "is no zip archive, or is damaged or cut off"),
    (lambda path: path.write_text("no archive"), "is no zip archive"),
    (lambda path: archive(path, text=b"[" * 100_000), "is not the manifest of a bundle"),
    (lambda path: archive(path, text=b'{"schema": 1}'), "is not the manifest of a bundle"),
    (lambda path: archive(path, text=b'{"schema": 99}'), "in schema 99"),
]


@pytest.mark.parametrize(("make", "message"), HOSTILE)
def test_hostile_archives_are_refused(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    """Each is one line that says what is wrong."""
    make(tmp_path / "a.zip")
    assert message in refused(tmp_path / "a.zip", tmp_path)


def test_an_archive_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    """Any other zip archive is refused by name."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as opened:
        opened.writestr("README.md", "hello")
    assert "is no bundle of rlexp" in refused(tmp_path / "a.zip", tmp_path)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that would become far larger than it is, or larger than a bundle, is not unpacked."""
    monkeypatch.setattr(bundle_archive, "HARMLESS", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bundle.json", listed())
        opened.writestr("zeros", bytes(4 << 20))
    assert "would become 4,19" in refused(tmp_path / "a.zip", tmp_path)
    monkeypatch.setattr(bundle_archive, "LARGEST_BUNDLE", 10)
    (tmp_path / "more").mkdir()
    assert "would become" in refused(archive(tmp_path / "b.zip", "README.md"), tmp_path / "more")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of very many entries is not unpacked."""
    monkeypatch.setattr(bundle_archive, "MOST_FILES", 2)
    assert "holds 3 files" in refused(archive(tmp_path / "a.zip", "a", "b"), tmp_path)


def test_links_in_an_unpacked_bundle_are_refused(tmp_path: Path) -> None:
    """A link to a file or to a folder is not followed."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/bundle.json").write_bytes(listed("runs/a"))
    (tmp_path / "bundle/runs").symlink_to("/etc")
    assert "is a link or no file" in refused(tmp_path / "bundle", tmp_path)


def test_added_and_changed_files_are_named(tmp_path: Path) -> None:
    """A file that the manifest lacks is not copied; a changed one is named."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "bundle.json").write_bytes(listed("a", "b"))
    (folder / "a").write_bytes(CONTENT + b"more")
    (folder / "mine.txt").write_text("mine")
    (folder / ".hidden").write_text("left by a command")
    result = staged(folder, tmp_path)
    assert (("b",), ("a",), ("mine.txt",)) == (result.missing, result.changed, result.added)
    assert not (tmp_path / "staged/mine.txt").exists()


def test_an_archive_has_the_same_bytes_whatever_the_times(tmp_path: Path) -> None:
    """Times, order and permissions of the files do not reach the archive."""
    for name in ("b", "a", "bundle.json"):
        (tmp_path / name).write_text(name)
    write_archive(tmp_path / "one.zip", tmp_path, ["b", "a", "bundle.json"])
    os.utime(tmp_path / "a", (1, 1))
    (tmp_path / "b").chmod(0o600)
    write_archive(tmp_path / "two.zip", tmp_path, ["bundle.json", "a", "b"])
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
