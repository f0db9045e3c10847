"""The journal file of a study when it is torn, damaged, locked or in use."""

import os
from pathlib import Path

import pytest
from mirroring import expected, mirror, plain_trials, sample_trial, study

from rlexp.exchange.optuna_study import JOURNAL

TRIALS = [sample_trial(0), sample_trial(1, "failed"), sample_trial(2, "running")]
DAMAGED = f"{JOURNAL}.damaged-1"


def journal_content(folder: Path) -> bytes:
    """The content of a small journal, written by two mirrors."""
    mirror(folder).sync(TRIALS[:1])
    mirror(folder).sync(TRIALS)
    return (folder / JOURNAL).read_bytes()


def is_repaired(folder: Path) -> bool:
    """Whether the study is complete after the next mirrors, and Optuna can write to it."""
    mirror(folder).sync(TRIALS)
    mirror(folder).sync(TRIALS)
    study(folder).set_user_attr("note", "mine")
    return expected(TRIALS) == plain_trials(study(folder).trials)


def test_cut_anywhere(tmp_path: Path) -> None:
    """A journal cut inside a record is renamed, and the study is complete after any cut."""
    content = journal_content(tmp_path)
    line_ends = [end for end, byte in enumerate(content, 1) if byte == 10]
    cuts = {0, *range(1, len(content), 131), *line_ends, *(end - 1 for end in line_ends)}
    for cut in sorted(cuts):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / JOURNAL).write_bytes(content[:cut])
        assert is_repaired(folder), cut
        renamed_path = folder / DAMAGED
        assert [cut not in {0, *line_ends}] == [renamed_path.exists()], cut
        assert not renamed_path.exists() or content[:cut] == renamed_path.read_bytes()


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
    content = damage(journal_content(tmp_path))
    (tmp_path / JOURNAL).write_bytes(content)
    assert is_repaired(tmp_path)
    assert content == (tmp_path / DAMAGED).read_bytes()


def test_a_missing_record(tmp_path: Path) -> None:
    """A journal without one of its records is not renamed, and the study is complete again."""
    lines = journal_content(tmp_path).splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if b'"op_code":4' in line)
    (tmp_path / JOURNAL).write_bytes(b"".join(lines[:first] + lines[first + 1 :]))
    assert is_repaired(tmp_path)
    assert not (tmp_path / DAMAGED).exists()


@pytest.mark.parametrize("part", [0, 7, 0.5, -7])
def test_cut_under_a_living_mirror(tmp_path: Path, part: float) -> None:
    """A journal that is cut while a mirror uses it is complete after the next update."""
    writer = mirror(tmp_path)
    writer.sync(TRIALS[:2])
    size = (tmp_path / JOURNAL).stat().st_size
    os.truncate(tmp_path / JOURNAL, int(part * size if isinstance(part, float) else part % size))
    writer.sync(TRIALS)
    assert expected(TRIALS) == plain_trials(study(tmp_path).trials)


def test_every_damaged_file_is_kept(tmp_path: Path) -> None:
    """A second process gives the next damaged journal another name."""
    for number in (1, 2):
        mirror(tmp_path).sync(TRIALS)
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(b"torn")
        mirror(tmp_path).sync(TRIALS)
        assert (tmp_path / f"{JOURNAL}.damaged-{number}").exists()


def test_one_damaged_file_for_each_mirror(tmp_path: Path) -> None:
    """A mirror on a full disk keeps one damaged journal, not one for each attempt."""
    writer = mirror(tmp_path)
    for _ in range(3):
        writer.sync(TRIALS)
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(b"torn")
    writer.sync(TRIALS)
    assert [DAMAGED] == [path.name for path in tmp_path.glob("*damaged*")]


def test_lock_of_a_killed_process(tmp_path: Path) -> None:
    """Optuna's lock of a killed process is broken after some seconds."""
    mirror(tmp_path).sync(TRIALS[:1])
    lock = tmp_path / f"{JOURNAL}.lock"
    lock.symlink_to(tmp_path / JOURNAL)
    mirror(tmp_path).sync(TRIALS)
    assert not lock.is_symlink()
    assert expected(TRIALS) == plain_trials(study(tmp_path).trials)


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path names the same journal as an absolute one."""
    folder = Path("ü ö") / "a'; echo b"
    monkeypatch.chdir(tmp_path)
    mirror(folder).sync(TRIALS)
    assert expected(TRIALS) == plain_trials(study(tmp_path / folder).trials)


def test_a_folder_in_place_of_the_journal(tmp_path: Path) -> None:
    """A folder in place of the journal is not renamed."""
    (tmp_path / JOURNAL).mkdir()
    with pytest.raises(IsADirectoryError):
        mirror(tmp_path).sync(TRIALS)
    assert [JOURNAL] == [path.name for path in tmp_path.glob(f"{JOURNAL}*") if path.is_dir()]
