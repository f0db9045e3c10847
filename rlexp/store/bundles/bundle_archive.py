"""Bundles on disk: a zip archive with reproducible bytes, or a folder.

An archive may come from anybody. It is read file by file, and only files of the manifest are copied, to
paths that cannot lead out of the target. Links, passwords, names that occur twice, and archives that
become far larger than they are, are refused before anything is written.
"""

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from rlexp.errors import RecordError
from rlexp.store.bundles.bundle_manifest import (
    BUNDLE_MANIFEST,
    LARGEST_MANIFEST,
    BundledFile,
    BundleManifest,
    check_path,
    check_tree,
    decode_bundle,
)
from rlexp.store.files import open_file

ARCHIVE = ".zip"
"""The ending of the name of an archive."""
FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the first one that a zip archive can hold."""
LEVEL = 6
LARGEST_BUNDLE = 1 << 36
"""Most bytes of all files together: 64 GiB."""
MOST_FILES = 1_000_000
HARMLESS = 1 << 28
"""Bytes up to which any compression is accepted."""
MOST_RATIO = 200
"""Most bytes that come out of one byte of a large archive; journals give about 10."""
_CHUNK = 1 << 20
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 1


@dataclass(frozen=True, slots=True)
class StagedBundle:
    """The files of a bundle that were copied, and what differs from its manifest.

    Attributes:
        manifest: The manifest.
        manifest_sum: The sha256 of `bundle.json`, on which all other sums depend.
        archive_sum: The sha256 of the archive; None for a folder.
        missing: Files of the manifest that are not in the bundle.
        changed: Files that do not have the sum or the size of the manifest.
        added: Files that the manifest does not name.
    """

    manifest: BundleManifest
    manifest_sum: str
    archive_sum: str | None
    missing: tuple[str, ...]
    changed: tuple[str, ...]
    added: tuple[str, ...]


def write_archive(target: Path, folder: Path, paths: Sequence[str]) -> None:
    """Write files of a folder into a new zip archive; the same files give the same bytes.

    The bytes also depend on the version of zlib, which compresses.

    Args:
        target: The archive.
        folder: The folder.
        paths: The files, relative to the folder.

    Raises:
        OSError: The disk is full, or a file cannot be read.
    """
    # The manifest comes first, so that a reader of a stream knows what follows.
    ordered = sorted(paths, key=lambda path: (path != BUNDLE_MANIFEST, path))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path in ordered:
            entry = archive_entry(path)
            entry.file_size = (folder / path).stat().st_size
            with open_file(folder / path) as source, archive.open(entry, "w") as to:
                while chunk := source.read(_CHUNK):
                    to.write(chunk)


def archive_entry(path: str) -> zipfile.ZipInfo:
    """A compressed file of a zip archive, by its path; the same on every machine and at any time."""
    entry = zipfile.ZipInfo(path, FIRST_DAY)
    entry.compress_type = zipfile.ZIP_DEFLATED
    # The system is always given as Unix: by default it is that of the writer.
    entry.create_system = 3
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    return entry


def is_bundle(path: Path) -> bool:
    """Whether a path is a file, or a folder with the manifest of a bundle."""
    return path.is_file() or (path.is_dir() and (path / BUNDLE_MANIFEST).is_file())


def stage_bundle(path: Path, target: Path) -> StagedBundle:
    """Copy the files of a bundle into an empty folder, and compare them with the manifest.

    Only files with the sum of the manifest, and changed ones, are copied; added ones never.

    Args:
        path: A zip archive or a folder.
        target: An empty folder.

    Raises:
        RecordError: The path is no bundle, or its content is refused; nothing outside of `target` was
            written.
        OSError: The target cannot be written.
    """
    with _opened(path) as source:
        sizes = source.sizes()
        if BUNDLE_MANIFEST not in sizes:
            raise RecordError(f"{path} is no bundle of rlexp: it has no {BUNDLE_MANIFEST}")
        if sizes[BUNDLE_MANIFEST] > LARGEST_MANIFEST:
            raise RecordError(
                f"{path}: {BUNDLE_MANIFEST} has more than {LARGEST_MANIFEST:,} bytes"
            )
        text = _content(source, path)
        manifest = decode_bundle(text)
        listed = {file.path: file for file in manifest.files}
        missing = [name for name in listed if name not in sizes]
        present = [file for name, file in listed.items() if name in sizes]
        changed = [f.path for f in present if not _copied(source, f, target, sizes[f.path], path)]
        (target / BUNDLE_MANIFEST).write_bytes(text)
    return StagedBundle(
        manifest=manifest,
        manifest_sum=hashlib.sha256(text).hexdigest(),
        archive_sum=sha256_of(path) if path.is_file() else None,
        missing=tuple(sorted(missing)),
        changed=tuple(sorted(changed)),
        added=tuple(sorted(sizes.keys() - listed.keys() - {BUNDLE_MANIFEST})),
    )


class BundleSource(Protocol):
    """The files of a bundle, wherever they are."""

    def sizes(self) -> Mapping[str, int]:
        """The number of bytes of every file, by path."""

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading."""


@dataclass(frozen=True, slots=True)
class FolderSource:
    """An unpacked bundle."""

    folder: Path

    def sizes(self) -> dict[str, int]:
        """The size of every file; hidden ones, which readers' commands leave, do not count."""
        return dict(self._files(self.folder, ""))

    def _files(self, folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.name.startswith("."):
                    continue
                path = check_path(prefix + entry.name)
                if entry.is_dir(follow_symlinks=False):
                    yield from self._files(Path(entry.path), f"{path}/")
                elif entry.is_file(follow_symlinks=False):
                    yield path, entry.stat(follow_symlinks=False).st_size
                else:
                    raise RecordError(
                        f"{path} is a link or no file, which a bundle does not hold: unpack the "
                        "archive into a new folder"
                    )

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading; a link is refused."""
        return open_file(self.folder / path)


@dataclass(frozen=True, slots=True)
class ZipSource:
    """A zip archive."""

    path: Path
    archive: zipfile.ZipFile

    def sizes(self) -> dict[str, int]:
        """The size of every file, as the archive declares it."""
        entries = self.archive.infolist()
        if len(entries) > MOST_FILES:
            raise RecordError(f"{self.path} holds {len(entries):,} files: at most {MOST_FILES:,}")
        for entry in entries:
            self._check(entry)
        files = [entry for entry in entries if not entry.is_dir()]
        check_tree([entry.filename for entry in files])
        self._check_sizes(files)
        return {entry.filename: entry.file_size for entry in files}

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading; no more than its declared size is read."""
        return self.archive.open(path)

    def _check(self, entry: zipfile.ZipInfo) -> None:
        # `orig_filename`: for `filename`, zipfile cuts the name at a NUL.
        check_path(entry.orig_filename.removesuffix("/"))
        kind = stat.S_IFMT(entry.external_attr >> 16)
        # Some programs write no kind at all.
        if kind not in {0, stat.S_IFDIR if entry.is_dir() else stat.S_IFREG}:
            raise RecordError(
                f"{self.path}: {entry.filename!r:.120} is a link or no file: refused"
            )
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
            raise RecordError(
                f"{self.path}: {entry.filename!r:.120} is encrypted or compressed in another way than "
                "rlexp does: refused"
            )

    def _check_sizes(self, files: Sequence[zipfile.ZipInfo]) -> None:
        packed, size = self.path.stat().st_size, sum(entry.file_size for entry in files)
        # Entries that share their bytes give more than the archive has.
        if sum(entry.compress_size for entry in files) > packed:
            raise RecordError(f"{self.path}: files of the archive overlap: refused")
        if size > LARGEST_BUNDLE or (size > HARMLESS and size > MOST_RATIO * packed):
            raise RecordError(
                f"{self.path} has {packed:,} bytes and would become {size:,}: refused; a bundle has at "
                f"most {LARGEST_BUNDLE:,}, and at most {MOST_RATIO} from one byte of the archive"
            )


@contextmanager
def _opened(path: Path) -> Iterator[BundleSource]:
    try:
        if path.is_dir():
            yield FolderSource(path)
            return
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            yield ZipSource(path, archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise RecordError(
            f"{path} is no zip archive, or is damaged or cut off: {error}; get it again"
        ) from error


def _content(source: BundleSource, path: Path) -> bytes:
    with source.open(BUNDLE_MANIFEST) as file:
        text = file.read(LARGEST_MANIFEST + 1)
    if len(text) > LARGEST_MANIFEST:
        raise RecordError(f"{path}: {BUNDLE_MANIFEST} has more than {LARGEST_MANIFEST:,} bytes")
    return text


def _copied(source: BundleSource, file: BundledFile, target: Path, size: int, path: Path) -> bool:
    """Copy a file; returns whether it has the sum of the manifest."""
    copy = target / file.path
    copy.parent.mkdir(parents=True, exist_ok=True)
    digest, total = hashlib.sha256(), 0
    with source.open(file.path) as opened, copy.open("xb") as to:
        while chunk := opened.read(_CHUNK):
            total += len(chunk)
            # A file may grow while it is copied, or be longer than the archive declares.
            if total > size:
                raise RecordError(f"{path}: {file.path} has more bytes than the bundle declares")
            digest.update(chunk)
            to.write(chunk)
    return (total, digest.hexdigest()) == (file.bytes, file.sha256)


def sha256_of(path: Path) -> str:
    """The sha256 of a regular file.

    Raises:
        OSError: The file is a link or cannot be read.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
