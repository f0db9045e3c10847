"""`rlexp init` writes a workspace whose printed commands work, and overwrites no file."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import typed as rlexp
from in_full import long

from rlexp.app.commands.setup.init import files, init
from rlexp.errors import ConfigError


def contents(folder: Path) -> dict[str, str]:
    """Every file in a folder and its content."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_file_is_written(tmp_path: Path) -> None:
    """The written files are those that the command lists."""
    init(str(tmp_path / "new" / "study"))

    assert files("study") == contents(tmp_path / "new" / "study")


@long
def test_printed_commands_work_when_pasted(tmp_path: Path) -> None:
    """The printed commands run in a shell, one after the other, without an error."""
    printed = rlexp(tmp_path, "init", "my 'first' study")
    commands = re.findall(r"^To .+?: (.+)$", printed.out, re.MULTILINE)
    script = "\n".join(["set -e", f'rlexp() {{ {shlex.quote(sys.executable)} -m rlexp "$@"; }}'])

    process = subprocess.run(
        ["bash", "-c", "\n".join([script, *commands])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "RLEXP_HOME": str(tmp_path)},
        timeout=280,
    )

    assert (0, "") == (process.returncode, process.stderr)
    assert ["cd", "rlexp"] == sorted({shlex.split(command)[0] for command in commands})
    assert "every planned run has a score (2 of 2)" in process.stdout
    readme = (tmp_path / "my 'first' study" / "README.md").read_text()
    assert [command for command in commands[1:] if f"$ {command}\n" not in readme] == []


@pytest.mark.parametrize("name", [*files("x"), "conf/environment/corridor.yaml"])
def test_nothing_is_overwritten(name: str, tmp_path: Path) -> None:
    """An existing file is named in the error, and no file is written."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")

    with pytest.raises(ConfigError, match=re.escape(f"already holds {name}")):
        init(str(tmp_path))
    assert contents(tmp_path) == {name: "mine"}


def test_second_time_is_refused(tmp_path: Path) -> None:
    """A second `init` is refused and changes no file."""
    init(str(tmp_path))
    (tmp_path / "corridor.py").write_text("changed")

    with pytest.raises(ConfigError, match=r"corridor\.py, conf/environment/corridor\.yaml"):
        init(str(tmp_path))
    assert (tmp_path / "corridor.py").read_text() == "changed"


def test_a_dangling_link_counts_as_an_existing_file(tmp_path: Path) -> None:
    """A dangling link counts as an existing file and is not followed."""
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "README.md").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match=r"already holds README\.md"):
        init(str(tmp_path / "study"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_failure_removes_written_files(tmp_path: Path) -> None:
    """If a file stops the command, the files that it wrote are removed."""
    (tmp_path / "sweeps").write_text("a file")

    with pytest.raises(ConfigError, match=r"cannot write .*sweeps.*choose another folder"):
        init(str(tmp_path))
    assert contents(tmp_path) == {"sweeps": "a file"}
    assert [path.name for path in tmp_path.iterdir()] == ["sweeps"]


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A file in place of the folder is refused."""
    (tmp_path / "study").touch()

    with pytest.raises(ConfigError, match="cannot write"):
        init(str(tmp_path / "study"))


def test_present_folder_needs_no_cd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the current folder, no `cd` command is suggested."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unrelated.txt").touch()

    scaffold = init(".")

    assert "check the environment" == scaffold.next[0].why
    assert contents(tmp_path)["README.md"].startswith(f"# {tmp_path.name}\n")
