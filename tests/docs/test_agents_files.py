"""What programs read first is true: AGENTS.md of a workspace, AGENTS.md of rlexp, and llms.txt."""

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import typed as rlexp
from documentation import BESIDE, FOR_PROGRAMS, ROOT, adapted, llms_txt, pages
from in_full import long
from page_commands import shortened
from pasted_commands import pasted
from reference_pages import reference_pages
from shown_commands import blocks, commands

from rlexp import errors
from rlexp.app.commands.setup.init import AGENTS_TEXT, SECTION_BEGIN, SECTION_END
from rlexp.cli import exit_codes
from rlexp.cli.every_command import app
from rlexp.mcp.tools import TOOLS

OWN_PAGE = (ROOT / "AGENTS.md").read_text()
GATE = ("algorithm.n_steps=64", "budget.evaluation_every=null", "budget.final_episodes=1")


def short(words: Sequence[str]) -> Sequence[str]:
    """The words of a command with a tiny budget for trainings."""
    tiny = ["budget.steps=128" if word.startswith("budget.steps=") else word for word in words]
    if words[0] == "gate":
        return [*tiny, *GATE] if "--write" in words else tiny
    return shortened(words) if "--dry-run" not in words else [*words, "--no-probe"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_of_a_workspace_work(tmp_path: Path) -> None:
    """Each command of the AGENTS.md that `rlexp init --agents` writes works after those before it."""
    folder = tmp_path / "study"
    rlexp(tmp_path, "init", "study")
    rlexp(tmp_path, "init", "--agents", "study")
    shown = commands((folder / "AGENTS.md").read_text())
    assert len(shown) >= 15
    process = pasted("\n".join(shown), folder, received=short)
    output = process.stdout + process.stderr
    assert 0 == process.returncode, output[-4000:]
    assert "Traceback" not in output


def test_exit_codes_of_a_workspace_are_true() -> None:
    """The table of AGENTS.md has every exit code of the program but those of rare signals."""
    rows = re.findall(r"^\| ([\d, ]+) \| .+ \|$", AGENTS_TEXT, re.MULTILINE)
    named = {int(code) for row in rows for code in row.split(",")}
    constants = {value for value in vars(exit_codes).values() if isinstance(value, int)}
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    constants |= {kind.exit_code for kind in kinds if issubclass(kind, errors.RlexpError)}
    assert constants <= named
    assert named <= constants | set(exit_codes.OF_SIGNALS.values())


def test_tools_of_a_workspace_are_true() -> None:
    """AGENTS.md names every tool of the MCP server."""
    sentence = " ".join(AGENTS_TEXT.rpartition("offers ")[2].partition(",\n")[0].split())
    assert set(TOOLS) == set(re.split(r", | and |, with", sentence.partition(", with")[0]))


@pytest.mark.parametrize(
    "command",
    [
        # Other tests of the ordinary suite execute these scripts, which takes long.
        pytest.param(command, marks=[long] if ".ci/" in command else [], id=command)
        for command in commands(OWN_PAGE)
    ],
)
def test_commands_of_contributors_work(command: str) -> None:
    """Each command of the AGENTS.md of rlexp works in the checkout."""
    programs = Path(sys.executable).parent
    words = [word.replace(".venv/bin", str(programs)) for word in shlex.split(command)]
    process = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert 0 == process.returncode, process.stdout + process.stderr


def test_contributors_find_what_is_named() -> None:
    """The targets of make and the files that AGENTS.md of rlexp names exist."""
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"`make ([\w-]+)`", OWN_PAGE)
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    files = re.findall(r"`((?:\.ci|docs|rlexp)/[\w/.]+|[A-Z]+\.md)`", OWN_PAGE)
    assert files
    assert all((ROOT / name).exists() for name in files)
    assert blocks(OWN_PAGE, "bash own")


def test_llms_txt_leads_to_pages() -> None:
    """Every link of llms.txt is a page of the site, and every page of the index is linked."""
    generated = reference_pages()
    written = (ROOT / "docs" / "index.md").read_text()
    index = adapted(written, "docs/index.md", pages())
    text = "".join(llms_txt(index, generated))
    links = re.findall(r"\]\(_sources/(\S+)\.txt\)", text)
    assert len(links) > 60
    assert set(links) <= {*pages().values(), *generated}
    assert "guides/agents.md" in links
    assert len(links) == len(set(links))
    assert set(generated) <= set(links)
    assert set(BESIDE.values()) <= set(links)


def test_commands_of_llms_txt_exist() -> None:
    """Every command and option that llms.txt names is one of the program."""
    root: Any = typer.main.get_command(app)
    named = re.findall(r"`(rlexp [^`]+)`", FOR_PROGRAMS.replace("\n", " "))
    assert len(named) >= 5
    for text in named:
        command, options = root, []
        for word in shlex.split(text)[1:]:
            if word.startswith("-"):
                options.append(word)
            elif word in getattr(command, "commands", {}):
                command = command.commands[word]
        assert command is not root, text
        assert set(options) <= {name for p in command.params for name in p.opts}, text


def test_the_section_is_added_and_nothing_is_lost(tmp_path: Path) -> None:
    """`rlexp init --agents` adds its section to the end of a file, once, and keeps what it held."""
    file = tmp_path / "AGENTS.md"
    file.write_text("# Mine\n\nNo final line end")
    first = rlexp(tmp_path, "init", "--agents")
    assert "added a section to AGENTS.md; what it held before is unchanged" in first.out
    extended = file.read_text()
    assert (
        f"# Mine\n\nNo final line end\n\n{SECTION_BEGIN}\n{AGENTS_TEXT}{SECTION_END}\n" == extended
    )
    again = rlexp(tmp_path, "init", "--agents", "--json")
    assert ([], []) == (again.content["files"], again.content["extended"])
    assert extended == file.read_text()


def test_an_edited_section_is_not_overwritten(tmp_path: Path) -> None:
    """A section that was changed is kept, and the message says which lines to remove."""
    rlexp(tmp_path, "init", "--agents")
    file = tmp_path / "AGENTS.md"
    file.write_text(file.read_text().replace("Rules", "My rules"))
    printed = rlexp(tmp_path, "init", "--agents")
    assert (2, 1) == (printed.code, printed.err.count("\n"))
    assert f"remove the lines from {SECTION_BEGIN} to {SECTION_END}" in printed.err
    assert "My rules" in file.read_text()


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A folder or bytes in the place of the file give one line, and stay as they are."""
    file = tmp_path / "AGENTS.md"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    printed = rlexp(tmp_path, "init", "--agents")
    assert (2, 1) == (printed.code, printed.err.count("\n"))
    assert content is None or content == file.read_bytes()


def test_two_kinds_of_files_are_refused(tmp_path: Path) -> None:
    """`--study` and `--agents` together write nothing."""
    printed = rlexp(tmp_path, "init", "--study", "--agents")
    assert (2, []) == (printed.code, [*tmp_path.iterdir()])
