"""`rlexp rm`: removes what is named, whole, unused and inside `runs/`."""

from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, evaluated, stored, study

from rlexp.app.commands.remove import remove
from rlexp.errors import RecordError
from rlexp.store.layout import Layout
from rlexp.store.lease import hold
from rlexp.store.runs import folder_size

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """An experiment with two runs."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.complete(0, 1.0)
    alpha.attempt(1, [evaluated(50, 1.0)])
    return alpha


def told(target: str, folder: Path, *, yes: bool = False) -> list[str]:
    """What `rlexp rm` says."""
    printed = rlexp(folder, "rm", target, *(["--yes"] if yes else []))
    assert 0 == printed.code
    return printed.out.splitlines()


def test_without_yes_nothing_goes(alpha: Stored, tmp_path: Path) -> None:
    """It says what would go, and the exact command that does it."""
    before = sorted(tmp_path.rglob("*"))
    first, second = told("alpha", tmp_path)
    assert first.startswith("would remove alpha: 2 runs, ")
    assert second == "To do it: rlexp rm alpha --yes"
    name = alpha.run(0).folder.name
    first, second = told(name[:-2], tmp_path)
    assert first.startswith(f"would remove alpha/{name}: 1 run, ")
    assert second == f"To do it: rlexp rm alpha/{name} --yes"
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.parametrize("target", ["alpha", "runs/alpha/"])
def test_an_experiment_goes_whole(alpha: Stored, tmp_path: Path, target: str) -> None:
    """Nothing of it is left, not even under a hidden name."""
    assert told(target, tmp_path, yes=True)[0].startswith("removed alpha: 2 runs, ")
    assert [] == list((tmp_path / "runs").iterdir())


def test_a_run_goes_and_leaves_its_experiment(alpha: Stored, tmp_path: Path) -> None:
    """The other run stays, and so does the definition."""
    name = alpha.run(0).folder.name
    told(f"alpha/{name}", tmp_path, yes=True)
    assert [alpha.run(1).folder.name] == [run.folder.name for run in alpha.paths.runs()]
    assert alpha.paths.definition.exists()
    assert [] == [p for p in alpha.paths.folder.iterdir() if p.name.startswith(".removed")]


def test_machines_are_told_what_goes_and_the_command(alpha: Stored, tmp_path: Path) -> None:
    """The JSON says what it is, how large it is, and whether it was removed."""
    size = folder_size(alpha.paths.folder)
    document = rlexp(tmp_path, "rm", "alpha", "--json").document("removal")
    expected = {"name": "alpha", "link": False, "runs": 2}
    command = {"why": "do it", "command": "rlexp rm alpha --yes"}
    assert {**expected, "bytes": size, "removed": False, "next": [command]} == document
    document = rlexp(tmp_path, "rm", "alpha", "--yes", "--json").document("removal")
    # The experiment is locked now, and so has the file of a lock as well.
    assert document.pop("bytes") >= size
    assert {**expected, "removed": True, "next": []} == document
    assert not alpha.paths.folder.exists()


def test_a_part_of_a_name_removes_nothing(alpha: Stored, tmp_path: Path) -> None:
    """A slip of the finger must not remove another run: the whole name is needed."""
    name = alpha.run(0).folder.name
    with pytest.raises(RecordError, match=f"only a part of .*: rlexp rm alpha/{name} --yes"):
        remove(name[:-1], study(tmp_path), yes=True)
    assert alpha.run(0).folder.exists()


@pytest.mark.parametrize("target", ["", "/", "..", "../x", ".", "alpha/..", "alpha/.", "runs"])
def test_what_is_no_experiment_is_refused(alpha: Stored, tmp_path: Path, target: str) -> None:
    """No name leads out of `runs/`, or to all of it."""
    with pytest.raises(RecordError):
        remove(target, study(tmp_path), yes=True)
    assert 2 == len(alpha.paths.runs())


@pytest.mark.parametrize("yes", [False, True])
def test_what_is_in_use_is_refused(alpha: Stored, tmp_path: Path, yes: bool) -> None:
    """Neither an experiment that a command drives nor a run that runs, nor what holds them."""
    names = [alpha.run(seed).folder.name for seed in (0, 1)]
    with hold(alpha.paths.lock, "it", now=STARTED):
        for target in ("alpha", *names):
            with pytest.raises(RecordError, match=r"alpha is in use by .*: rlexp cancel alpha"):
                remove(target, study(tmp_path), yes=yes)
    with hold(alpha.run(1).lease, "it", now=STARTED):
        for target in ("alpha", names[1]):
            with pytest.raises(RecordError, match=f"in use by .*: rlexp cancel alpha/{names[1]}"):
                remove(target, study(tmp_path), yes=yes)
        remove(names[0], study(tmp_path), yes=yes)


def test_links_are_removed_and_not_what_they_lead_to(alpha: Stored, tmp_path: Path) -> None:
    """A linked experiment loses its link; links inside a run lead to no deletion."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (alpha.run(0).folder / "link").symlink_to(outside)
    alpha.paths.folder.rename(tmp_path / "moved")
    link = tmp_path / "runs" / "linked"
    link.symlink_to(tmp_path / "moved")
    run = next(p for p in link.iterdir() if p.is_dir()).name
    with pytest.raises(RecordError, match=r"is outside .*, because a folder above it is a link"):
        remove(f"linked/{run}", study(tmp_path), yes=True)
    told("linked", tmp_path, yes=True)
    assert not link.is_symlink()
    (tmp_path / "moved").rename(tmp_path / "runs" / "alpha")
    told("alpha", tmp_path, yes=True)
    assert (outside / "precious").exists()


def test_a_run_that_is_a_link_is_removed_while_nobody_else_may(
    alpha: Stored, tmp_path: Path
) -> None:
    """Its experiment is locked, since its ledger says so."""
    alpha.run(0).folder.rename(tmp_path / "elsewhere")
    alpha.run(0).folder.symlink_to(tmp_path / "elsewhere")
    alpha.paths.lock.symlink_to(tmp_path / "no lock")
    name = f"alpha/{alpha.run(0).folder.name}"
    with pytest.raises(RecordError, match="is a link, which no lock of ours is"):
        told(name, tmp_path, yes=True)
    alpha.paths.lock.unlink()
    told(name, tmp_path, yes=True)
    assert not alpha.run(0).folder.is_symlink()
    assert (tmp_path / "elsewhere").exists()


def test_hostile_names_can_be_removed(tmp_path: Path) -> None:
    """Whatever lies under `runs/` can be removed under the name that `ls` finds."""
    folder = tmp_path / "runs" / "[bold]x \x1b[31m"
    (folder / "run" / "attempts").mkdir(parents=True)
    first, _ = told(folder.name, tmp_path)
    assert first.startswith("would remove [bold]x \N{REPLACEMENT CHARACTER}[31m: 1 run, ")
    told(folder.name, tmp_path, yes=True)
    assert not folder.exists()
