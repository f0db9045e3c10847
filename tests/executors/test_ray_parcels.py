"""Parcels hold files below a folder and nothing else, whoever packed them."""

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.errors import RecordError
from rlexp.executors.ray.messages import OFFSET, Piece, pack, read_below, unpack, write_below
from rlexp.executors.ray.session import uploaded_files
from rlexp.store.layout import ExperimentPaths


def member(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **fields: object
) -> bytes:
    """The bytes of a tar file with one member."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        info.type, info.size = kind, len(content)
        for field, value in fields.items():
            setattr(info, field, value)
        tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def write(folder: Path, parcel: bytes) -> None:
    """Write a parcel below a folder."""
    for piece in unpack(parcel):
        write_below(folder, piece)


HOSTILE = {
    "link": member("model.zip", tarfile.SYMTYPE, linkname="/etc/passwd"),
    "hard link": member("model.zip", tarfile.LNKTYPE, linkname="spec.json"),
    "parent": member("../spec.json"),
    "parent within": member("attempts/../../spec.json"),
    "absolute": member("/etc/passwd"),
    "here": member("./spec.json"),
    "nothing": member("attempts//1"),
    "hidden": member(".claim"),
    "hidden within": member("attempts/1/.job"),
    "backslash": member("..\\spec.json"),
    "device": member("model.zip", tarfile.CHRTYPE, devmajor=1, devminor=3),
    "block device": member("model.zip", tarfile.BLKTYPE, devmajor=8, devminor=0),
    "pipe": member("model.zip", tarfile.FIFOTYPE),
    "folder": member("attempts", tarfile.DIRTYPE),
    "sparse": member("model.zip", tarfile.GNUTYPE_SPARSE),
    "sparse by header": member(
        "x", content=b"1\n0\n1\n", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    ),
    "long": member("a/" * 600 + "b"),
    "before the file": member("model.zip", pax_headers={OFFSET: "-1"}),
    "far behind the file": member("model.zip", pax_headers={OFFSET: "9" * 30}),
    "cut off": pack([Piece("model.zip", b"x" * 5000)])[:3000],
    "no tar": b"not a tar file at all" * 100,
    "compressed": b"\x1f\x8b\x08" + bytes(600),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_parcels_are_refused_and_write_nothing(name: str, tmp_path: Path) -> None:
    """Links, devices, paths out of the folder and damage are refused before anything is written."""
    with pytest.raises(RecordError, match="a parcel"):
        write(tmp_path / "runs", HOSTILE[name])
    assert [] == list(tmp_path.rglob("*"))


def test_a_size_that_is_not_there_is_not_believed() -> None:
    """A header that claims more bytes than the parcel has is refused."""
    parcel = bytearray(member("model.zip", content=b"abc"))
    header = tarfile.TarInfo("model.zip")
    header.size = 1 << 40
    parcel[:512] = header.tobuf(tarfile.GNU_FORMAT)[:512]
    with pytest.raises(RecordError, match="a parcel"):
        list(unpack(bytes(parcel)))


@given(
    st.dictionaries(
        st.text("abc/é ", min_size=1, max_size=12).filter(
            lambda name: all(part for part in name.split("/"))
        ),
        st.tuples(st.binary(max_size=2000), st.none() | st.integers(0, 10**9)),
        max_size=4,
    )
)
def test_what_is_packed_is_unpacked(files: dict[str, tuple[bytes, int | None]]) -> None:
    """Names, contents, offsets and the order of files arrive as they were sent."""
    pieces = [Piece(name, content, offset) for name, (content, offset) in files.items()]
    assert pieces == list(unpack(pack(pieces)))


def test_links_in_the_folder_are_not_followed(tmp_path: Path) -> None:
    """No file is written through a link in a run's folder."""
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    run.mkdir()
    (run / "attempts").symlink_to(outside)
    (run / "journal").symlink_to(outside / "file")
    with pytest.raises(RecordError, match="is a link"):
        write_below(run, Piece("attempts/1/log.txt", b""))
    with pytest.raises(RecordError, match="is a link"):
        write_below(run, Piece("journal", b"", 0))
    write_below(run, Piece("journal", b"new"))
    assert not list(outside.iterdir())
    assert (run / "journal").read_bytes() == b"new"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A folder, a pipe and a missing file are left out, and a regular file is read."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"content")
    assert [None] * 3 == [read_below(tmp_path, name) for name in ("folder", "pipe", "missing")]
    assert Piece("file", b"content", None) == read_below(tmp_path, "file")


def test_what_is_written_into_a_file_needs_what_comes_before(tmp_path: Path) -> None:
    """Lines are appended at their offset, twice without harm, and never after a gap."""
    for piece in (Piece("a", b"one\n", 0), Piece("a", b"two\n", 4), Piece("a", b"two\n", 4)):
        write_below(tmp_path, piece)
    assert (tmp_path / "a").read_bytes() == b"one\ntwo\n"
    with pytest.raises(RecordError, match="lacks what comes before byte 9"):
        write_below(tmp_path, Piece("a", b"four", 9))


def test_baggage_is_what_a_worker_needs(tmp_path: Path) -> None:
    """Specs, orders, checkpoints and what trainings begin with or receive are sent; logs and links are not."""
    paths = ExperimentPaths(tmp_path)
    received = [paths.policies.name, paths.prior_data.name, paths.experience.name]
    files = [
        *("experiment.json", "orders/a.json", "orders/b.json", "a/spec.json", "b/spec.json"),
        *("a/attempts/1/events.jsonl", "a/attempts/1/log.txt", "a/attempts/1/files/big"),
        *("a/checkpoints/100/manifest.json", "a/checkpoints/.12345678.200/state.npz"),
        *("a/.claim", "a/stop", "a/model.zip", "ledger.jsonl", "jobs/x.token"),
        *(f"{folder}/digest/file" for folder in received),
    ]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a" / "replay").symlink_to("/")
    assert {
        *("experiment.json", "orders/a.json", "a/spec.json", "a/attempts/1/events.jsonl"),
        "a/checkpoints/100/manifest.json",
        *(f"{folder}/digest/file" for folder in received),
    } == {piece.name for piece in uploaded_files(paths, [paths.run("a")])}
