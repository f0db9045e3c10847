"""`rlexp rm` removes one unused experiment or run in `runs/`."""

from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, evaluated, stored, study

from rlexp.app.commands.order.remove import remove
from rlexp.errors import RecordError
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.store.runs import folder_size

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """An experiment with two runs."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.complete(0, 1.0)
    alpha.attempt(1, [evaluated(50, 1.0)])
    return alpha


def output_of(target: str, folder: Path, *, yes: bool = False) -> list[str]:
    """The lines that `rlexp rm` prints."""
    printed = rlexp(folder, "rm", target, *(["--yes"] if yes else []))
    assert 0 == printed.code
    return printed.out.splitlines()


def test_without_yes_nothing_is_removed(alpha: Stored, tmp_path: Path) -> None:
    """Without --yes, the output has the target and the command that removes it."""
    before = sorted(tmp_path.rglob("*"))
    first, second = output_of("alpha", tmp_path)
    assert first.startswith("would remove alpha: 2 runs, ")
    assert second == "To do it: rlexp rm alpha --yes"
    name = alpha.run(0).folder.name
    first, second = output_of(name[:-2], tmp_path)
    assert first.startswith(f"would remove alpha/{name}: 1 run, ")
    assert second == f"To do it: rlexp rm alpha/{name} --yes"
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.parametrize("target", ["alpha", "runs/alpha/"])
def test_an_experiment_is_removed_completely(alpha: Stored, tmp_path: Path, target: str) -> None:
    """After the removal, no file of the experiment is left."""
    assert output_of(target, tmp_path, yes=True)[0].startswith("removed alpha: 2 runs, ")
    assert [] == list((tmp_path / "runs").iterdir())


def test_removing_a_run_keeps_the_experiment(alpha: Stored, tmp_path: Path) -> None:
    """The removal of a run keeps the other run and the definition."""
    name = alpha.run(0).folder.name
    output_of(f"alpha/{name}", tmp_path, yes=True)
    assert [alpha.run(1).folder.name] == [run.folder.name for run in alpha.paths.runs()]
    assert alpha.paths.definition.exists()
    assert [] == [p for p in alpha.paths.folder.iterdir() if p.name.startswith(".removed")]


def test_json_has_the_removal_and_the_command(alpha: Stored, tmp_path: Path) -> None:
    """The JSON document has the size, whether the target was removed, and the next command."""
    size = folder_size(alpha.paths.folder)
    document = rlexp(tmp_path, "rm", "alpha", "--json").document("removal")
    expected = {"name": "alpha", "link": False, "runs": 2}
    command = {"why": "do it", "command": "rlexp rm alpha --yes"}
    assert {**expected, "bytes": size, "removed": False, "next": [command]} == document
    document = rlexp(tmp_path, "rm", "alpha", "--yes", "--json").document("removal")
    # The removal locks the experiment, so that its folder also has the lock file.
    assert document.pop("bytes") >= size
    assert {**expected, "removed": True, "next": []} == document
    assert not alpha.paths.folder.exists()


def test_a_part_of_a_name_removes_nothing(alpha: Stored, tmp_path: Path) -> None:
    """A part of a name is refused, so that a typing error removes no other run."""
    name = alpha.run(0).folder.name
    with pytest.raises(RecordError, match=f"only a part of .*: rlexp rm alpha/{name} --yes"):
        remove(name[:-1], study(tmp_path), yes=True)
    assert alpha.run(0).folder.exists()


@pytest.mark.parametrize("target", ["", "/", "..", "../x", ".", "alpha/..", "alpha/.", "runs"])
def test_names_outside_runs_are_refused(alpha: Stored, tmp_path: Path, target: str) -> None:
    """Names outside `runs/`, and `runs/` itself, are refused."""
    with pytest.raises(RecordError):
        remove(target, study(tmp_path), yes=True)
    assert 2 == len(alpha.paths.runs())


@pytest.mark.parametrize("yes", [False, True])
def test_experiments_and_runs_in_use_are_refused(alpha: Stored, tmp_path: Path, yes: bool) -> None:
    """An experiment or a run in use is refused, and so is the experiment of a running run."""
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


def test_links_are_removed_without_their_targets(alpha: Stored, tmp_path: Path) -> None:
    """A linked experiment loses only its link, and links inside a run are not followed."""
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
    output_of("linked", tmp_path, yes=True)
    assert not link.is_symlink()
    (tmp_path / "moved").rename(tmp_path / "runs" / "alpha")
    output_of("alpha", tmp_path, yes=True)
    assert (outside / "precious").exists()


def test_a_linked_run_is_removed_under_the_lock(alpha: Stored, tmp_path: Path) -> None:
    """A linked run is removed only if its experiment can be locked."""
    alpha.run(0).folder.rename(tmp_path / "elsewhere")
    alpha.run(0).folder.symlink_to(tmp_path / "elsewhere")
    alpha.paths.lock.symlink_to(tmp_path / "no lock")
    name = f"alpha/{alpha.run(0).folder.name}"
    with pytest.raises(RecordError, match="is a link, and a lock must be"):
        output_of(name, tmp_path, yes=True)
    alpha.paths.lock.unlink()
    output_of(name, tmp_path, yes=True)
    assert not alpha.run(0).folder.is_symlink()
    assert (tmp_path / "elsewhere").exists()


def test_hostile_names_can_be_removed(tmp_path: Path) -> None:
    """A folder with escape codes in its name can be removed."""
    folder = tmp_path / "runs" / "[bold]x \x1b[31m"
    (folder / "run" / "attempts").mkdir(parents=True)
    first, _ = output_of(folder.name, tmp_path)
    assert first.startswith("would remove [bold]x \N{REPLACEMENT CHARACTER}[31m: 1 run, ")
    output_of(folder.name, tmp_path, yes=True)
    assert not folder.exists()
