"""The code of a run is rebuilt in a separate worktree, which is removed afterwards."""

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

from rlexp.app.reproduction.checkout import check_out_code
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
    """The code of a folder, stored as an attempt's provenance and read again."""
    code = read_code(folder)
    written = stored(Layout(folder.parent / "records"))
    provenance = collect(code, ["rlexp"], folder, {})
    paths = written.attempt(0, completed(1.0), provenance=provenance, patch=code.patch)
    return read_original(paths).code


def worktrees(folder: Path) -> int:
    """The number of worktrees that git knows, including the user's."""
    return len(git(folder, "worktree", "list").splitlines())


def test_changes_and_untracked_files_are_rebuilt(place: GitStudy, tmp_path: Path) -> None:
    """Changed, added, removed, renamed and executable files are rebuilt, whatever their names."""
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
    with check_out_code(code, place.folder, tmp_path / "worktree") as checkout:
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
def test_git_settings_of_the_user_do_not_matter(
    place: GitStudy, tmp_path: Path, setting: str
) -> None:
    """Recorded changes apply whatever diff settings the user has."""
    git(place.folder, "config", *setting.split("="))
    with check_out_code(code_of(place.folder), place.folder, tmp_path / "worktree") as checkout:
        assert "SCALE = 2.0\n" == (checkout.folder / "rebuilt_task_constants.py").read_text()


def test_a_workspace_below_the_root_of_its_repository(tmp_path: Path) -> None:
    """The workspace is the same folder of the worktree."""
    top = committed(tmp_path / "top", "inner_task")
    study = write_tree(top.folder / "papers" / "one", {"task.py": "A = 1\n"})
    code = code_of(study)
    with check_out_code(code, study, tmp_path / "worktree") as checkout:
        assert tmp_path / "worktree" / "papers" / "one" == checkout.folder
        assert "A = 1\n" == (checkout.folder / "task.py").read_text()


def test_editable_packages_are_imported_from_the_worktree(
    place: GitStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of the repository on Python's path are replaced by those of the worktree."""
    write_tree(place.folder, {"src/mine/__init__.py": "", "secret.txt/lib/x.py": ""})
    code = code_of(place.folder)
    separate = [str(place.folder / "src"), str(place.folder / "secret.txt" / "lib")]
    monkeypatch.setattr(sys, "path", ["first", *separate, *sys.path])
    with check_out_code(code, place.folder, tmp_path / "worktree") as checkout:
        assert (tmp_path / "worktree" / "src",) == checkout.imports


def test_masked_changes_are_marked_as_incomplete(place: GitStudy) -> None:
    """Where a secret was masked in the patch, the code counts as not saved in full."""
    assert code_of(place.folder).saved
    (place.folder / "settings.py").write_text("api_key = 'abcdefgh12345678'\n")
    assert not code_of(place.folder).saved


def test_binary_changes_are_marked_as_incomplete(place: GitStudy) -> None:
    """A change that is not UTF-8 cannot be applied, and counts as not saved."""
    path = place.folder / "latin.txt"
    path.write_bytes(b"gr\xfc\xdfe\n")
    git(place.folder, "add", "-A")
    git(place.folder, "commit", "-qm", "two")
    path.write_bytes(b"gr\xfc\xdf dich\n")
    assert not code_of(place.folder).saved


def test_the_worktree_is_removed_after_an_error(place: GitStudy, tmp_path: Path) -> None:
    """An error inside the `with` block leaves no worktree."""
    with (
        suppress(KeyboardInterrupt),
        check_out_code(code_of(place.folder), place.folder, tmp_path / "worktree"),
    ):
        raise KeyboardInterrupt
    assert 1 == worktrees(place.folder)
    assert not (tmp_path / "worktree").exists()


def test_an_interrupted_worktree_is_removed(place: GitStudy, tmp_path: Path) -> None:
    """A locked worktree of an interrupted git command is removed too."""
    code = code_of(place.folder)
    with check_out_code(code, place.folder, tmp_path / "worktree") as checkout:
        git(place.folder, "worktree", "lock", "--reason", "initializing", str(checkout.folder))
        (checkout.folder / ".git").unlink()
    assert 1 == worktrees(place.folder)


def test_repository_variables_of_git_are_ignored(
    place: GitStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a git hook, git's variables name another repository, which is left alone."""
    other = committed(tmp_path / "other", "other_task")
    code = code_of(place.folder)
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    with check_out_code(code, place.folder, tmp_path / "worktree") as checkout:
        assert (checkout.folder / "rebuilt_task_constants.py").exists()
    monkeypatch.delenv("GIT_DIR")
    assert 1 == worktrees(other.folder)


def test_patch_cannot_leave_the_worktree(place: GitStudy, tmp_path: Path) -> None:
    """A patch of unknown origin writes no file outside the worktree."""
    patch = b"--- /dev/null\n+++ b/../outside.txt\n@@ -0,0 +1,1 @@\n+x\n"
    head = git(place.folder, "rev-parse", "HEAD").strip()
    code = RecordedCode(commit=head, changed=("x",), patch=patch, source=Path("diff.patch"))
    with (
        pytest.raises(RecordError, match=r"diff.patch does not apply"),
        check_out_code(code, place.folder, tmp_path / "inner" / "worktree"),
    ):
        pass
    assert not list(tmp_path.rglob("outside.txt"))


def test_attempts_of_other_code_are_noticed(place: GitStudy) -> None:
    """An earlier attempt that counts and ran other code is noticed."""
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


def test_sigterm_leaves_no_worktree(tmp_path: Path) -> None:
    """SIGTERM during the work leaves no worktree and no process."""
    place = trained(committed(tmp_path / "study", "ended_task"))
    arguments = ["reproduce", "tiny", "--allow-import", place.module]
    mark = f"MARK={tmp_path}"
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "rlexp", *arguments],
        cwd=place.folder,
        env={**os.environ, "MARK": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        _until(lambda: worktrees(place.folder) == 2 and len(marked(mark)) > 1)
        process.send_signal(signal.SIGTERM)
        _, message = process.communicate(timeout=PATIENCE)
    assert 143 == process.returncode
    assert re.fullmatch(rb"(code: commit .*, in a separate git worktree\n)?", message)
    assert 1 == worktrees(place.folder)
    _until(lambda: not marked(mark))
    assert [] == list(tmp_path.glob("rlexp-reproduce-*"))


def test_ctrl_c_leaves_no_worktree(tmp_path: Path) -> None:
    """Ctrl-C during the work leaves no worktree and no process."""
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
        _, message = process.communicate(timeout=PATIENCE)
    assert 130 == process.returncode
    assert re.fullmatch(r"(code: commit .*, in a separate git worktree\n)?", message)
    assert 1 == worktrees(place.folder)
    _until(lambda: not any(each.is_running() for each in started))
    assert [] == list(tmp_path.glob("rlexp-reproduce-*"))


def marked(variable: str) -> list[str]:
    """Processes that have this variable."""
    content = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable.encode() in path.read_bytes().split(b"\0"):
                content.append(path.parent.name)
    return content


def _until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline
        sleep(0.02)
