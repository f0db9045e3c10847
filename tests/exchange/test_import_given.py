"""The input of an import: folders, files and archives; none of them leads elsewhere."""

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from import_sources import RECORDED, given, write_evaluations, write_json, write_table

from rlexp.config.third_party_yaml import read_third_party_yaml
from rlexp.errors import ConfigError
from rlexp.exchange.importers import source_files
from rlexp.exchange.importers.imported_study import MalformedError
from rlexp.exchange.importers.kinds import KINDS, kind_of, split_kind
from rlexp.exchange.importers.source_files import find_source_files

CONTENT = b"label,task,seed,step,return\na,t,0,1,1\n"


def names(*paths: Path) -> list[str]:
    """The names of the files that are found below these paths."""
    return [file.name for file in given(*paths)]


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    """A zip archive."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return path


def tarred(path: Path, *members: tarfile.TarInfo) -> Path:
    """A tar archive, packed as its name says; each file in it is a table."""
    mode: Any = "w:gz" if path.name.endswith("gz") else "w"
    with tarfile.open(path, mode) as archive:
        for member in members:
            if member.isreg():
                member.size = len(CONTENT)
            archive.addfile(member, io.BytesIO(CONTENT) if member.isreg() else None)
    return path


def test_folders(tmp_path: Path) -> None:
    """Every file below a folder is found, sorted by name with numbers in order."""
    for name in ("a/10.csv", "a/9.csv", "a/b/c.csv", "d.csv"):
        (tmp_path / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / name).write_bytes(CONTENT)
    expected = ["logs/a/9.csv", "logs/a/10.csv", "logs/a/b/c.csv", "logs/d.csv"]
    assert expected == names(tmp_path / "logs")


def test_same_names_are_told_apart(tmp_path: Path) -> None:
    """Folders of one name are called by the last parts of their paths that differ."""
    for name in ("x/logs", "y/logs"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.csv").write_bytes(CONTENT)
    assert ["x/logs/a.csv", "y/logs/a.csv"] == names(tmp_path / "x/logs", tmp_path / "y/logs")


def test_links_and_pipes_are_passed_over(tmp_path: Path) -> None:
    """Links are not followed, and pipes are not opened."""
    (tmp_path / "secret.csv").write_bytes(CONTENT)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.csv").write_bytes(CONTENT)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.csv").symlink_to(tmp_path / "secret.csv")
    (logs / "inside").symlink_to(tmp_path / "elsewhere")
    (logs / "around").symlink_to(logs)
    os.mkfifo(logs / "pipe.csv")
    (logs / "own.csv").write_bytes(CONTENT)
    assert ["logs/own.csv"] == names(logs)


def test_a_missing_path(tmp_path: Path) -> None:
    """The error names the missing path."""
    with pytest.raises(ConfigError, match="does not exist"):
        names(tmp_path / "missing")


def test_invalid_paths(tmp_path: Path) -> None:
    """A too long name, an empty path and too deeply nested folders are refused."""
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        names(tmp_path / ("x" * 300))
    assert ("auto", ("x" * 5000,)) == split_kind(["x" * 5000])
    with pytest.raises(ConfigError, match="a path is empty"):
        split_kind(["csv", ""])
    deep = tmp_path / "/".join(["d"] * 25)
    deep.mkdir(parents=True)
    with pytest.raises(ConfigError, match="nested deeper than 20 folders"):
        names(tmp_path / "d")


@pytest.mark.parametrize("name", ["logs.zip", "logs.tar", "logs.tar.gz", "LOGS.TGZ"])
def test_archives(tmp_path: Path, name: str) -> None:
    """Readable files of an archive are unpacked; other files are ignored."""
    path = tmp_path / name
    table, model = "a/b/scores.csv", "a/model.pth"
    if name.endswith("zip"):
        zipped(path, {table: CONTENT, model: CONTENT})
    else:
        lower_path = tmp_path / name.lower()
        tarred(lower_path, tarfile.TarInfo(table), tarfile.TarInfo(model))
        lower_path.rename(path)
    target = tmp_path / "unpacked"
    target.mkdir()
    [file] = find_source_files([path], Path.read_bytes, target)
    assert (f"{name}/a/b/scores.csv", CONTENT) == (file.name, file.load().content)


UNSAFE_NAMES = (
    "../a.csv",
    "a/../../b.csv",
    "/tmp/a.csv",
    "..\\a.csv",
    "C:/a.csv",
    "a\x1b.csv",
    f"{'x' * 300}.csv",
)


@pytest.mark.parametrize("name", UNSAFE_NAMES)
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """An archive with an unsafe member name is refused, and nothing is written outside."""
    for path in (
        zipped(tmp_path / "a.zip", {"ok.csv": CONTENT, name: CONTENT}),
        tarred(tmp_path / "a.tar.gz", tarfile.TarInfo("ok.csv"), tarfile.TarInfo(name)),
    ):
        before = {p for p in tmp_path.rglob("*") if p.is_file()}
        target = tmp_path / f"{path.suffix}-unpacked"
        target.mkdir()
        with pytest.raises(MalformedError, match="leads out of the folder"):
            find_source_files([path], Path.read_bytes, target)
        after = {p for p in tmp_path.rglob("*") if p.is_file() and not p.is_relative_to(target)}
        assert before == after


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_links_and_devices_in_archives(tmp_path: Path, kind: bytes) -> None:
    """Members that are neither files nor folders are refused."""
    member = tarfile.TarInfo("a.csv")
    member.type, member.linkname = kind, "/etc/passwd"
    content = member.tobuf(format=tarfile.GNU_FORMAT) + bytes(1024)
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(MalformedError, match="link or a device"):
        names(tmp_path / "a.tar")


def test_links_in_zip_archives(tmp_path: Path) -> None:
    """A link in a zip archive is refused."""
    entry = ZipInfo("a.csv")
    entry.external_attr = 0o120777 << 16
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(MalformedError, match="link or a device"):
        names(tmp_path / "a.zip")


def test_bombs(tmp_path: Path) -> None:
    """An archive that unpacks to many times its size is refused."""
    zeros = bytes(40 << 20)
    zipped(tmp_path / "a.zip", {"a.csv": zeros})
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(_tar("a.bin", zeros)))
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(zeros))
    (tmp_path / "c.tar.gz").write_bytes(gzip.compress(_tar("h", zeros, kind=b"x")))
    for name, message in {
        "a.zip": "unpacks to more",
        "a.tar.gz": "unpacks to more",
        "c.tar.gz": "of its headers is too long",
    }.items():
        with pytest.raises(MalformedError, match=message):
            names(tmp_path / name)
    assert [] == names(tmp_path / "b.tar.gz")


def _tar(name: str, content: bytes, kind: bytes = b"0") -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = len(content), kind
    return member.tobuf(format=tarfile.GNU_FORMAT) + content + bytes(1024)


def test_wrong_sizes_in_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are counted while unpacking, and headers that change a size are refused."""
    monkeypatch.setattr(source_files, "LARGEST_MEMBER", 10)
    with pytest.raises(MalformedError, match="more than 10 bytes"):
        names(zipped(tmp_path / "a.zip", {"a.csv": CONTENT}))
    header = _tar("h", b"20 size=99999999999\n".ljust(512, b"\0"), kind=b"x")[:-1024]
    (tmp_path / "a.tar").write_bytes(header + _tar("a.csv", b"1".ljust(512)))
    with pytest.raises(MalformedError, match="changes the size of a file"):
        names(tmp_path / "a.tar")


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive with too many members or with repeated names is refused."""
    monkeypatch.setattr(source_files, "MOST_MEMBERS", 3)
    with pytest.raises(MalformedError, match="more than 3 members"):
        names(zipped(tmp_path / "a.zip", {f"{n}.txt": b"" for n in range(5)}))
    with pytest.raises(MalformedError, match="two members"):
        names(tarred(tmp_path / "a.tar", tarfile.TarInfo("a.csv"), tarfile.TarInfo("a.csv")))


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_every_damage_of_an_archive(tmp_path: Path, name: str) -> None:
    """An archive with any cut or changed byte gives an error, never a traceback."""
    path = tmp_path / name
    if name == "a.zip":
        zipped(path, {"a.csv": CONTENT})
    else:
        tarred(path, tarfile.TarInfo("a.csv"))
    original = path.read_bytes()
    step = max(1, len(original) // 60)
    for number, count in enumerate(range(0, min(len(original), 2000), step)):
        flipped = original[:count] + bytes([original[count] ^ 0x41]) + original[count + 1 :]
        for kind, content in {"cut": original[:count], "flipped": flipped}.items():
            path.write_bytes(content)
            target = tmp_path / f"{number}-{kind}"
            target.mkdir()
            with suppress(MalformedError):
                find_source_files([path], Path.read_bytes, target)


def test_kinds_are_recognised(tmp_path: Path) -> None:
    """Each kind is recognised by its files; if several kinds fit, the user must name one."""
    kinds: dict[str, Callable[[Path], Any]] = {
        "sb3-evaluations": lambda path: write_evaluations(path, [1], [[1.0]]),
        "csv": lambda path: write_table(
            path / "a.csv", [("a", "t", 0, 1, 1)], "label,task,seed,step,return"
        ),
        "marl-eval": lambda path: write_json(
            path / "a.json", {"env": {"task": {"algo": {"seed_0": {"step_0": {"step_count": 1}}}}}}
        ),
    }
    for kind, write in kinds.items():
        (tmp_path / kind).mkdir()
        write(tmp_path / kind)
        assert kind == kind_of("auto", given(tmp_path / kind), read_third_party_yaml).name
    assert (
        "tensorboard" == kind_of("auto", given(RECORDED / "cleanrl"), read_third_party_yaml).name
    )
    with pytest.raises(ConfigError, match="several kinds fit: name one of sb3-evaluations, marl"):
        kind_of("auto", given(tmp_path), read_third_party_yaml)
    with pytest.raises(ConfigError, match=r"kind mlflow .*; it looks like csv"):
        kind_of("mlflow", given(tmp_path / "csv"), read_third_party_yaml)
    (tmp_path / "other.txt").touch()
    with pytest.raises(
        ConfigError, match=r"no kind fits the given files .*sb3-monitor: monitor\.csv"
    ):
        kind_of("auto", given(tmp_path / "other.txt"), read_third_party_yaml)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="the given paths contain no file"):
        kind_of("csv", given(tmp_path / "empty"), read_third_party_yaml)


def test_a_table_without_a_column_is_a_table(tmp_path: Path) -> None:
    """A table without a required column is of kind csv only if the user names the kind."""
    table = write_table(tmp_path / "a.csv", [], "label,task,seed,step,score")
    assert "csv" == kind_of("csv", given(table), read_third_party_yaml).name
    with pytest.raises(ConfigError, match="no kind fits"):
        kind_of("auto", given(table), read_third_party_yaml)


def test_arguments_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind may be left out; a first word that is neither kind nor path is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    assert ("csv", ("logs",)) == split_kind(["csv", "logs"])
    assert ("auto", ("logs", "more")) == split_kind(["logs", "more"])
    with pytest.raises(ConfigError, match="did you mean 'sb3-monitor'"):
        split_kind(["sb3-monitors", "logs"])
    with pytest.raises(ConfigError, match="the path is missing"):
        split_kind([next(iter(KINDS))])
