"""The code of a run is rebuilt beside the user's own files, and removed again."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest
from quick_parts import quick_parts
from reproducible_studies import GitStudy, committed, git, trained
from samples import write_tree
from stored_runs import STARTED, completed, ended, evaluated, stored
from warm_processes import warm_process

from rlexp.app.reproduction.checkout import checked_out
from rlexp.app.reproduction.original import RecordedCode, read_original
from rlexp.errors import RecordError
from rlexp.records.events import Continued, Ending, Event
from rlexp.store.layout import Layout
from rlexp.store.provenance import collect, read_code

quick = pytest.fixture(autouse=True)(quick_parts)

PATIENCE = 60.0


@pytest.fixture
def place(tmp_path: Path) -> GitStudy:
    """A checkout with uncommitted changes."""
    return committed(tmp_path / "a study", "rebuilt_task")


def code_of(folder: Path) -> RecordedCode:
    """The code of a folder, as an attempt that is stored and read again tells it."""
    code = read_code(folder)
    written = stored(Layout(folder.parent / "records"))
    provenance = collect(code, ["rlexp"], folder, {})
    paths = written.attempt(0, completed(1.0), provenance=provenance, patch=code.patch)
    return read_original(paths).code


def worktrees(folder: Path) -> int:
    """How many worktrees git knows of, that of the user included."""
    return len(git(folder, "worktree", "list").splitlines())


def test_changes_and_untracked_files(place: GitStudy, tmp_path: Path) -> None:
    """What was changed, added, removed, renamed or made executable is there, whatever its name."""
    names = ["a b.txt", "größe.txt", "quo'te\".txt", "-rf.txt", "deep/er/x.txt", "empty.txt"]
    write_tree(place.folder, {name: f"{name}\nold\n" for name in names} | {"gone.txt": "x\n"})
    git(place.folder, "add", "-A")
    git(place.folder, "commit", "-qm", "two")
    changed = {name: f"{name}\nnew" for name in names}
    write_tree(place.folder, {**changed, "un tracked.txt": "ü\n", "none.txt": ""})
    (place.folder / "gone.txt").unlink()
    (place.folder / "deep").rename(place.folder / "deeper")
    (place.folder / "a b.txt").chmod(0o755)
    git(place.folder, "add", "deeper")
    expected = contents(place.folder)
    code = code_of(place.folder)
    with checked_out(code, place.folder, tmp_path / "worktree") as checkout:
        assert expected == contents(checkout.folder)
        assert os.access(checkout.folder / "a b.txt", os.X_OK)
    assert 1 == worktrees(place.folder)
    assert not (tmp_path / "worktree").exists()


def contents(folder: Path) -> dict[str, str]:
    """Every file of a checkout by its name."""
    paths = [p for p in folder.rglob("*") if p.is_file() and ".git" not in p.parts]
    return {str(p.relative_to(folder)): p.read_text() for p in paths}


@pytest.mark.parametrize(
    "setting",
    ["diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.context=0", "color.ui=always"],
)
def test_settings_of_git(place: GitStudy, tmp_path: Path, setting: str) -> None:
    """However a user has git show changes, those that are recorded can be applied."""
    git(place.folder, "config", *setting.split("="))
    with checked_out(code_of(place.folder), place.folder, tmp_path / "worktree") as checkout:
        assert "SCALE = 2.0\n" == (checkout.folder / "rebuilt_task_constants.py").read_text()


def test_study_below_the_top(tmp_path: Path) -> None:
    """A study in a folder of a repository is that folder of the worktree."""
    top = committed(tmp_path / "top", "inner_task")
    study = write_tree(top.folder / "papers" / "one", {"task.py": "A = 1\n"})
    code = code_of(study)
    with checked_out(code, study, tmp_path / "worktree") as checkout:
        assert tmp_path / "worktree" / "papers" / "one" == checkout.folder
        assert "A = 1\n" == (checkout.folder / "task.py").read_text()


def test_packages_installed_for_editing(
    place: GitStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Python imports from the repository now is imported from the worktree."""
    write_tree(place.folder, {"src/mine/__init__.py": "", "secret.txt/lib/x.py": ""})
    code = code_of(place.folder)
    own = [str(place.folder / "src"), str(place.folder / "secret.txt" / "lib")]
    monkeypatch.setattr(sys, "path", ["first", *own, *sys.path])
    with checked_out(code, place.folder, tmp_path / "worktree") as checkout:
        assert (tmp_path / "worktree" / "src",) == checkout.imports


def test_masked_secrets_are_not_whole(place: GitStudy) -> None:
    """Where a secret was masked in the changes, the code is known not to be what ran."""
    assert code_of(place.folder).saved
    (place.folder / "settings.py").write_text("api_key = 'abcdefgh12345678'\n")
    assert not code_of(place.folder).saved


def test_files_that_are_no_text_are_not_whole(place: GitStudy) -> None:
    """A change that is no UTF-8 cannot be applied again, and is not said to be saved."""
    path = place.folder / "latin.txt"
    path.write_bytes(b"gr\xfc\xdfe\n")
    git(place.folder, "add", "-A")
    git(place.folder, "commit", "-qm", "two")
    path.write_bytes(b"gr\xfc\xdf dich\n")
    assert not code_of(place.folder).saved


def test_removed_after_an_error(place: GitStudy, tmp_path: Path) -> None:
    """What goes wrong inside leaves no worktree behind."""
    with (
        suppress(KeyboardInterrupt),
        checked_out(code_of(place.folder), place.folder, tmp_path / "worktree"),
    ):
        raise KeyboardInterrupt
    assert 1 == worktrees(place.folder)
    assert not (tmp_path / "worktree").exists()


def test_half_made_worktree_is_forgotten(place: GitStudy, tmp_path: Path) -> None:
    """A worktree that git was interrupted at, and still holds locked, is forgotten too."""
    code = code_of(place.folder)
    with checked_out(code, place.folder, tmp_path / "worktree") as checkout:
        git(place.folder, "worktree", "lock", "--reason", "initializing", str(checkout.folder))
        (checkout.folder / ".git").unlink()
    assert 1 == worktrees(place.folder)


def test_own_repository_variables_do_not_count(
    place: GitStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a hook, git's variables name another repository: that one is left alone."""
    other = committed(tmp_path / "other", "other_task")
    code = code_of(place.folder)
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    with checked_out(code, place.folder, tmp_path / "worktree") as checkout:
        assert (checkout.folder / "rebuilt_task_constants.py").exists()
    monkeypatch.delenv("GIT_DIR")
    assert 1 == worktrees(other.folder)


def test_patch_cannot_leave_the_worktree(place: GitStudy, tmp_path: Path) -> None:
    """A patch of unknown origin writes nothing outside."""
    patch = b"--- /dev/null\n+++ b/../outside.txt\n@@ -0,0 +1,1 @@\n+x\n"
    head = git(place.folder, "rev-parse", "HEAD").strip()
    code = RecordedCode(commit=head, changed=("x",), patch=patch, source=Path("diff.patch"))
    with (
        pytest.raises(RecordError, match=r"diff.patch does not apply"),
        checked_out(code, place.folder, tmp_path / "inner" / "worktree"),
    ):
        pass
    assert not list(tmp_path.rglob("outside.txt"))


def test_attempts_of_other_code_are_noticed(place: GitStudy) -> None:
    """Where an earlier attempt counts that ran other code, this is known."""
    written = stored(Layout(place.folder.parent / "records"))
    code = read_code(place.folder)
    provenance = collect(code, ["rlexp"], place.folder, {})
    first: list[Event] = [evaluated(50, 1.0), ended(Ending.INTERRUPTED, 60)]
    written.attempt(0, first, provenance=provenance, patch=code.patch)
    (place.folder / "more.txt").write_text("x\n")
    code = read_code(place.folder)
    provenance = collect(code, ["rlexp"], place.folder, {})
    later: list[Event] = [Continued(time=STARTED, step=50, attempt=1), *completed(1.0)]
    paths = written.attempt(0, later, provenance=provenance, patch=code.patch)
    assert read_original(paths).mixed


def test_the_end_of_a_process_leaves_nothing(tmp_path: Path) -> None:
    """A request to end in the middle of it leaves no worktree and no process."""
    place = trained(committed(tmp_path / "study", "ended_task"))
    words = ["reproduce", "tiny", "--allow-import", place.module]
    mark = f"MARK={tmp_path}"
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "rlexp", *words],
        cwd=place.folder,
        env={**os.environ, "MARK": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        _until(lambda: worktrees(place.folder) == 2 and len(marked(mark)) > 1)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=PATIENCE)
    assert 143 == process.returncode
    assert re.fullmatch(rb"(code: commit .*, in a separate git worktree\n)?", told)
    assert 1 == worktrees(place.folder)
    _until(lambda: not marked(mark))
    assert [] == list(tmp_path.glob("rlexp-reproduce-*"))


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C in the middle of it leaves no worktree and no process."""
    place = trained(committed(tmp_path / "study", "interrupted_task"))
    with warm_process().Popen(
        [sys.executable, "-P", "-m", "rlexp", "reproduce", "tiny", "--allow-import", place.module],
        cwd=place.folder,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        warm=["rlexp.executors.local"],
    ) as process:
        command = psutil.Process(process.pid)
        # The warm process of the command, and the server that it forks.
        _until(lambda: worktrees(place.folder) == 2 and len(command.children(recursive=True)) > 1)
        started = command.children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
    assert 130 == process.returncode
    assert re.fullmatch(r"(code: commit .*, in a separate git worktree\n)?", told)
    assert 1 == worktrees(place.folder)
    _until(lambda: not any(each.is_running() for each in started))
    assert [] == list(tmp_path.glob("rlexp-reproduce-*"))


def marked(variable: str) -> list[str]:
    """Processes that have this variable."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


def _until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline
        sleep(0.02)
