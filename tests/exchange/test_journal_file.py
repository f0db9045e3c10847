"""The journal file of a study: torn, damaged, locked and in use."""

import os
from pathlib import Path

import pytest
from mirroring import expected, mirror, mirrored, shown, study

from rlexp.exchange.optuna_study import JOURNAL

TRIALS = [mirrored(0), mirrored(1, "failed"), mirrored(2, "running")]
DAMAGED = f"{JOURNAL}.damaged-1"


def whole(folder: Path) -> bytes:
    """The content of a small journal."""
    mirror(folder).sync(TRIALS[:1])
    mirror(folder).sync(TRIALS)
    return (folder / JOURNAL).read_bytes()


def repaired(folder: Path) -> bool:
    """Whether the next mirror leaves the study as it should be; Optuna can write to it, too."""
    mirror(folder).sync(TRIALS)
    mirror(folder).sync(TRIALS)
    study(folder).set_user_attr("note", "mine")
    return expected(TRIALS) == shown(study(folder).trials)


def test_cut_anywhere(tmp_path: Path) -> None:
    """A journal that is cut inside a record is renamed; the study is completed in any case."""
    content = whole(tmp_path)
    lines = [at for at, byte in enumerate(content, 1) if byte == 10]
    cuts = {0, *range(1, len(content), 131), *lines, *(at - 1 for at in lines)}
    for cut in sorted(cuts):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / JOURNAL).write_bytes(content[:cut])
        assert repaired(folder), cut
        aside = folder / DAMAGED
        assert [cut not in {0, *lines}] == [aside.exists()], cut
        assert not aside.exists() or content[:cut] == aside.read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content + b"\0\0\0\0",
        lambda content: content + b"\n",
        lambda content: content + b"[]\n",
        lambda content: content + b'{"op_code": 4}\n',
        lambda content: content + b'{"op_code"\n',
        lambda content: content.replace(b"\n", b"\n\n", 1),
        lambda content: content.replace(b"op_code", b"op_c\xffde", 1),
        lambda content: b"\0" * len(content),
        lambda content: b"an old file of mine",
    ],
)
def test_damage(tmp_path: Path, damage: object) -> None:
    """A journal that Optuna could not read now or later is renamed."""
    assert callable(damage)
    content = damage(whole(tmp_path))
    (tmp_path / JOURNAL).write_bytes(content)
    assert repaired(tmp_path)
    assert content == (tmp_path / DAMAGED).read_bytes()


def test_line_lost(tmp_path: Path) -> None:
    """A journal that lacks a record differs from the sweep, and the study starts over."""
    lines = whole(tmp_path).splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if b'"op_code":4' in line)
    (tmp_path / JOURNAL).write_bytes(b"".join(lines[:first] + lines[first + 1 :]))
    assert repaired(tmp_path)
    assert not (tmp_path / DAMAGED).exists()


@pytest.mark.parametrize("kept", [0, 7, 0.5, -7])
def test_cut_under_a_living_mirror(tmp_path: Path, kept: float) -> None:
    """A journal that is cut while in use is complete again after the next update."""
    one = mirror(tmp_path)
    one.sync(TRIALS[:2])
    size = (tmp_path / JOURNAL).stat().st_size
    os.truncate(tmp_path / JOURNAL, int(kept * size if isinstance(kept, float) else kept % size))
    one.sync(TRIALS)
    assert expected(TRIALS) == shown(study(tmp_path).trials)


def test_every_damaged_file_is_kept(tmp_path: Path) -> None:
    """A second process renames the next damaged journal to another name."""
    for number in (1, 2):
        mirror(tmp_path).sync(TRIALS)
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(b"torn")
        mirror(tmp_path).sync(TRIALS)
        assert (tmp_path / f"{JOURNAL}.damaged-{number}").exists()


def test_one_damaged_file_for_each_mirror(tmp_path: Path) -> None:
    """A mirror on a full disk keeps one damaged journal, not one for each attempt."""
    one = mirror(tmp_path)
    for _ in range(3):
        one.sync(TRIALS)
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(b"torn")
    one.sync(TRIALS)
    assert [DAMAGED] == [path.name for path in tmp_path.glob("*damaged*")]


def test_lock_of_a_killed_process(tmp_path: Path) -> None:
    """Optuna's lock of a killed process is broken after some seconds."""
    mirror(tmp_path).sync(TRIALS[:1])
    lock = tmp_path / f"{JOURNAL}.lock"
    lock.symlink_to(tmp_path / JOURNAL)
    mirror(tmp_path).sync(TRIALS)
    assert not lock.is_symlink()
    assert expected(TRIALS) == shown(study(tmp_path).trials)


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path names the same journal as an absolute one."""
    folder = Path("ü ö") / "a'; echo b"
    monkeypatch.chdir(tmp_path)
    mirror(folder).sync(TRIALS)
    assert expected(TRIALS) == shown(study(tmp_path / folder).trials)


def test_folder_in_the_way(tmp_path: Path) -> None:
    """A folder in place of the journal is not renamed."""
    (tmp_path / JOURNAL).mkdir()
    with pytest.raises(IsADirectoryError):
        mirror(tmp_path).sync(TRIALS)
    assert [JOURNAL] == [path.name for path in tmp_path.glob(f"{JOURNAL}*") if path.is_dir()]
