"""Commands of pages work, or stand on a list of at most ten with the reason. See page_commands.py."""

import textwrap
from pathlib import Path

import pytest
from page_commands import (
    AS_THEY_STAND,
    ELSEWHERE,
    NOT_EXECUTED,
    OTHER_PAGES,
    PAGES,
    ROOT,
    execute_page,
    make_experiments,
)
from shown_commands import commands


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the experiments that most pages name."""
    folder = tmp_path_factory.mktemp("experiments")
    make_experiments(folder)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OTHER_PAGES)
def test_commands_of_a_page_work(name: str, experiments: Path, tmp_path: Path) -> None:
    """Each command of a page succeeds after those before it, with a tiny budget."""
    execute_page(name, experiments, tmp_path / "workspace")


def test_at_most_ten_commands_are_not_executed() -> None:
    """Each beginning on the list fits exactly one command, and there are at most ten."""
    shown = [
        command
        for page in PAGES.values()
        for command in commands(page.read_text(), *AS_THEY_STAND)
    ]
    assert len(NOT_EXECUTED) <= 10
    for start in NOT_EXECUTED:
        assert 1 == sum(command.startswith(start) for command in shown), start


@pytest.mark.parametrize("start", ELSEWHERE)
def test_commands_that_are_executed_elsewhere(start: str) -> None:
    """The named file exists and is about the command."""
    file, words = ELSEWHERE[start]
    assert words in (ROOT / file).read_text()


def test_every_kind_of_shell_block_is_found(tmp_path: Path) -> None:
    """Prompts, continued lines, comments and outputs are told apart."""
    page = textwrap.dedent("""\
        ```console
        $ rlexp run \\
            seeds.test=2
        an output
        ```

        `train.sh`:

        ```sh
        rm nothing
        ```

        ```bash words
        # a comment
        rlexp ls
        ```
        """)
    assert ["rlexp run \\\n    seeds.test=2", "rlexp ls"] == commands(page)
