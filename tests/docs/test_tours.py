"""The commands of tutorials and guides by task work as pasted, page by page."""

from pathlib import Path

import pytest
from pasted_commands import pasted
from shown_commands import BLOCK, blocks, lines_not_printed

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = (
    "compare-branches",
    "from-cleanrl",
    "from-rl-zoo",
    "papers-artefact",
    "slurm",
    "tune-overnight",
)
PAGES = [
    *sorted((DOCS / "tutorials").glob("*.md")),
    *(DOCS / "guides" / f"{name}.md" for name in GUIDES),
]
NOT_EXECUTED = {
    "ssh login.cluster.example": "needs another machine",
    "cd /project/me": "is a folder of that machine",
    "python3 -m venv venv": "downloads packages on that machine",
    "venv/bin/pip install torch": "downloads packages on that machine",
    "venv/bin/pip install rlexp": "downloads packages on that machine",
    "rlexp run algorithm=a2c environment=cartpole experiment=one": "needs a Slurm cluster",
    "rlexp logs one/a2c-test-0": "reads the run of the command before",
    "rlexp run algorithm=ppo environment=cartpole experiment=many": "needs a Slurm cluster",
    "sacct -j JOB": "needs the accounting of a Slurm cluster",
    "rsync -a login.cluster.example": "needs another machine",
}
"""The beginnings of all commands that no test executes, with the reason."""
WITH_AN_EXECUTED_TWIN = {"tmux new-session -d -s overnight 'rlexp sweep overnight'"}
"""Commands that start an executed command of the same page in a terminal of its own."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_work_as_pasted(page: Path, tmp_path: Path) -> None:
    """Each command succeeds in an empty folder, after those before it, and prints what is shown."""
    text = page.read_text()
    process = pasted("".join(blocks(text, "bash tour")), tmp_path)
    assert 0 == process.returncode, (process.stdout + process.stderr)[-4000:]
    assert "Traceback" not in process.stdout + process.stderr
    assert [] == lines_not_printed(text, process.stdout)


def test_every_other_command_is_listed() -> None:
    """At most ten commands are not executed, and each of them is listed with its reason."""
    kinds = {kind for page in PAGES for kind in _kinds(page.read_text())}
    shells = {kind for kind in kinds if kind.split()[0] in {"bash", "console", "sh"}}
    commands = [
        line
        for page in PAGES
        for kind in sorted(shells - {"bash tour"})
        for text in blocks(page.read_text(), kind)
        for line in text.splitlines()
        if line not in WITH_AN_EXECUTED_TWIN
    ]
    assert len(NOT_EXECUTED) <= 10
    assert len(commands) == len(NOT_EXECUTED)
    for command, start in zip(commands, NOT_EXECUTED, strict=True):
        assert command.startswith(start)


def _kinds(text: str) -> list[str]:
    """The kinds of a page's code blocks."""
    return [match["kind"] for match in BLOCK.finditer(text)]
