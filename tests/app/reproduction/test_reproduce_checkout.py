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
def checkout_study(tmp_path: Path) -> GitStudy:
    """A checkout with uncommitted changes."""
    return committed(tmp_path / "a study", "rebuilt_task")


def code_of(folder: Path) -> RecordedCode:
    """The code of a folder, stored as an attempt's provenance and read again."""
    code = read_code(folder)
    experiment = stored(Layout(folder.parent / "records"))
    provenance = collect(code, ["rlexp"], folder, {})
    paths = experiment.attempt(0, completed(1.0), provenance=provenance, patch=code.patch)
    return read_original(paths).code


def worktrees(folder: Path) -> int:
    """The number of worktrees that git lists, including that of the user."""
    return len(git(folder, "worktree", "list").splitlines())


def test_changes_and_untracked_files_are_rebuilt(checkout_study: GitStudy, tmp_path: Path) -> None:
    """Changed, added, removed, renamed and executable files are rebuilt, with unusual names."""
    names = ["a b.txt", "größe.txt", "quo'te\".txt", "-rf.txt", "deep/er/x.txt", "empty.txt"]
    write_tree(
        checkout_study.folder, {name: f"{name}\nold\n" for name in names} | {"gone.txt": "x\n"}
    )
    git(checkout_study.folder, "add", "-A")
    git(checkout_study.folder, "commit", "-qm", "two")
    changed_files = {name: f"{name}\nnew" for name in names}
    write_tree(checkout_study.folder, {**changed_files, "un tracked.txt": "ü\n", "none.txt": ""})
    (checkout_study.folder / "gone.txt").unlink()
    (checkout_study.folder / "deep").rename(checkout_study.folder / "deeper")
    (checkout_study.folder / "a b.txt").chmod(0o755)
    git(checkout_study.folder, "add", "deeper")
    expected = contents(checkout_study.folder)
    code = code_of(checkout_study.folder)
    with check_out_code(code, checkout_study.folder, tmp_path / "worktree") as checkout:
        assert expected == contents(checkout.folder)
        assert os.access(checkout.folder / "a b.txt", os.X_OK)
    assert 1 == worktrees(checkout_study.folder)
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
    checkout_study: GitStudy, tmp_path: Path, setting: str
) -> None:
    """Recorded changes apply under any diff settings of the user."""
    git(checkout_study.folder, "config", *setting.split("="))
    with check_out_code(
        code_of(checkout_study.folder), checkout_study.folder, tmp_path / "worktree"
    ) as checkout:
        assert "SCALE = 2.0\n" == (checkout.folder / "rebuilt_task_constants.py").read_text()


def test_a_workspace_below_the_root_of_its_repository(tmp_path: Path) -> None:
    """A workspace below the root of its repository is the same folder of the worktree."""
    top = committed(tmp_path / "top", "inner_task")
    study = write_tree(top.folder / "papers" / "one", {"task.py": "A = 1\n"})
    code = code_of(study)
    with check_out_code(code, study, tmp_path / "worktree") as checkout:
        assert tmp_path / "worktree" / "papers" / "one" == checkout.folder
        assert "A = 1\n" == (checkout.folder / "task.py").read_text()


def test_editable_packages_are_imported_from_the_worktree(
    checkout_study: GitStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of the repository on Python's path are replaced by those of the worktree."""
    write_tree(checkout_study.folder, {"src/mine/__init__.py": "", "secret.txt/lib/x.py": ""})
    code = code_of(checkout_study.folder)
    source_folders = [
        str(checkout_study.folder / "src"),
        str(checkout_study.folder / "secret.txt" / "lib"),
    ]
    monkeypatch.setattr(sys, "path", ["first", *source_folders, *sys.path])
    with check_out_code(code, checkout_study.folder, tmp_path / "worktree") as checkout:
        assert (tmp_path / "worktree" / "src",) == checkout.imports


def test_masked_changes_are_marked_as_incomplete(checkout_study: GitStudy) -> None:
    """Code whose patch has a masked secret counts as not saved in full."""
    assert code_of(checkout_study.folder).saved
    (checkout_study.folder / "settings.py").write_text("api_key = 'abcdefgh12345678'\n")
    assert not code_of(checkout_study.folder).saved


def test_binary_changes_are_marked_as_incomplete(checkout_study: GitStudy) -> None:
    """A change that is not UTF-8 cannot be applied, and counts as not saved."""
    path = checkout_study.folder / "latin.txt"
    path.write_bytes(b"gr\xfc\xdfe\n")
    git(checkout_study.folder, "add", "-A")
    git(checkout_study.folder, "commit", "-qm", "two")
    path.write_bytes(b"gr\xfc\xdf dich\n")
    assert not code_of(checkout_study.folder).saved


def test_the_worktree_is_removed_after_an_error(checkout_study: GitStudy, tmp_path: Path) -> None:
    """An error inside the `with` block leaves no worktree."""
    with (
        suppress(KeyboardInterrupt),
        check_out_code(
            code_of(checkout_study.folder), checkout_study.folder, tmp_path / "worktree"
        ),
    ):
        raise KeyboardInterrupt
    assert 1 == worktrees(checkout_study.folder)
    assert not (tmp_path / "worktree").exists()


def test_an_interrupted_worktree_is_removed(checkout_study: GitStudy, tmp_path: Path) -> None:
    """A locked worktree of an interrupted git command is removed too."""
    code = code_of(checkout_study.folder)
    with check_out_code(code, checkout_study.folder, tmp_path / "worktree") as checkout:
        git(
            checkout_study.folder,
            "worktree",
            "lock",
            "--reason",
            "initializing",
            str(checkout.folder),
        )
        (checkout.folder / ".git").unlink()
    assert 1 == worktrees(checkout_study.folder)


def test_repository_variables_of_git_are_ignored(
    checkout_study: GitStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a git hook, the repository that the variables of git name stays unchanged."""
    other = committed(tmp_path / "other", "other_task")
    code = code_of(checkout_study.folder)
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    with check_out_code(code, checkout_study.folder, tmp_path / "worktree") as checkout:
        assert (checkout.folder / "rebuilt_task_constants.py").exists()
    monkeypatch.delenv("GIT_DIR")
    assert 1 == worktrees(other.folder)


def test_patch_cannot_leave_the_worktree(checkout_study: GitStudy, tmp_path: Path) -> None:
    """A patch writes no file outside the worktree."""
    patch = b"--- /dev/null\n+++ b/../outside.txt\n@@ -0,0 +1,1 @@\n+x\n"
    head = git(checkout_study.folder, "rev-parse", "HEAD").strip()
    code = RecordedCode(commit=head, changed=("x",), patch=patch, source=Path("diff.patch"))
    with (
        pytest.raises(RecordError, match=r"diff.patch does not apply"),
        check_out_code(code, checkout_study.folder, tmp_path / "inner" / "worktree"),
    ):
        pass
    assert not list(tmp_path.rglob("outside.txt"))


def test_attempts_of_other_code_are_noticed(checkout_study: GitStudy) -> None:
    """A run whose earlier attempt ran other code is marked as mixed."""
    experiment = stored(Layout(checkout_study.folder.parent / "records"))
    code = read_code(checkout_study.folder)
    provenance = collect(code, ["rlexp"], checkout_study.folder, {})
    first: list[Event] = [evaluated(50, 1.0), ended(Ending.INTERRUPTED, 60)]
    experiment.attempt(0, first, provenance=provenance, patch=code.patch)
    (checkout_study.folder / "more.txt").write_text("x\n")
    code = read_code(checkout_study.folder)
    provenance = collect(code, ["rlexp"], checkout_study.folder, {})
    later: list[Event] = [Continued(time=STARTED, step=50, attempt=1), *completed(1.0)]
    paths = experiment.attempt(0, later, provenance=provenance, patch=code.patch)
    assert read_original(paths).mixed


def test_sigterm_leaves_no_worktree(tmp_path: Path) -> None:
    """SIGTERM leaves no worktree and no process."""
    checkout_study = trained(committed(tmp_path / "study", "ended_task"))
    arguments = ["reproduce", "tiny", "--allow-import", checkout_study.module]
    mark = f"MARK={tmp_path}"
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "rlexp", *arguments],
        cwd=checkout_study.folder,
        env={**os.environ, "MARK": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        _until(lambda: worktrees(checkout_study.folder) == 2 and len(marked(mark)) > 1)
        process.send_signal(signal.SIGTERM)
        _, message = process.communicate(timeout=PATIENCE)
    assert 143 == process.returncode
    assert re.fullmatch(rb"(code: commit .*, in a separate git worktree\n)?", message)
    assert 1 == worktrees(checkout_study.folder)
    _until(lambda: not marked(mark))
    assert [] == list(tmp_path.glob("rlexp-reproduce-*"))


def test_ctrl_c_leaves_no_worktree(tmp_path: Path) -> None:
    """Ctrl-C leaves no worktree and no process."""
    checkout_study = trained(committed(tmp_path / "study", "interrupted_task"))
    with warm_process().Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "rlexp",
            "reproduce",
            "tiny",
            "--allow-import",
            checkout_study.module,
        ],
        cwd=checkout_study.folder,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        warm=["rlexp.executors.local"],
    ) as process:
        command = psutil.Process(process.pid)
        # The warm process of the command, and the server that it forks.
        _until(
            lambda: (
                worktrees(checkout_study.folder) == 2 and len(command.children(recursive=True)) > 1
            )
        )
        children = command.children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=PATIENCE)
    assert 130 == process.returncode
    assert re.fullmatch(r"(code: commit .*, in a separate git worktree\n)?", message)
    assert 1 == worktrees(checkout_study.folder)
    _until(lambda: not any(child.is_running() for child in children))
    assert [] == list(tmp_path.glob("rlexp-reproduce-*"))


def marked(variable: str) -> list[str]:
    """The ids of the processes that have this variable."""
    process_ids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable.encode() in path.read_bytes().split(b"\0"):
                process_ids.append(path.parent.name)
    return process_ids


def _until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline
        sleep(0.02)
