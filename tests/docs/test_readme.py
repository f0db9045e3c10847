"""The tour and the README work as pasted, and the test command of the README is that of CI."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from in_full import IN_FULL
from last_words import with_few_trials
from pasted_commands import pasted
from shown_commands import blocks, lines_not_printed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs" / "tour.md").read_text()
SHORTER = {
    "seeds.test=5": "seeds.test=2",
    "budget.steps=6000": "budget.steps=2048 budget.final_episodes=2",
    "sweep quick": "sweep quick sweep.trials=2 budget.steps=128 budget.final_episodes=2 "
    "budget.evaluation_every=64 algorithm.n_steps=64 'sweep.space.algorithm.n_steps=choice(32,64)' "
    "seeds.tuning=1 seeds.selection=1 seeds.test=1",
}
"""Parts of the README's commands, and what replaces them outside of `make test-long`."""
DECIDED = "ppo is better than dqn"
"""What the first command of the README shows when nothing is shortened."""
STARTED = {"compare", "init", "reproduce", "environment=corridor"}
"""Words of the commands that are started in full, as users start them; the others are forks."""


def is_started(words: Sequence[str]) -> bool:
    """Whether a command of the tour is started in full; in `make test-all`, all are."""
    return IN_FULL or bool(STARTED & set(words))


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of the tour in an empty folder, block by block."""
    commands = "".join(blocks(TOUR, "bash tour"))
    process = pasted(commands, tmp_path_factory.mktemp("a tour"), is_started, with_few_trials)
    assert 0 == process.returncode, (process.stdout + process.stderr)[-4000:]
    assert "Traceback" not in process.stdout + process.stderr
    return process.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tour_works_as_pasted(output: str) -> None:
    """The tour succeeds and prints the planned steps and the completed runs."""
    assert "3 runs × 4,000 environment steps" in output
    assert "every planned run has a score (5 of 5)" in output


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_shown_output_is_real(output: str) -> None:
    """Each output line on the page of the tour is printed by the tour, except for its numbers."""
    assert [] == lines_not_printed(TOUR, output)


def test_tour_uses_every_command() -> None:
    """The tour uses each command but `demo`, which the README begins with, `view`, `mcp` and `recipe`.

    `view` serves a page until Ctrl-C, and `mcp` serves until its client closes.
    """
    from typer.main import get_command

    from rlexp.cli.every_command import app

    commands = set(getattr(get_command(app), "commands", {}))
    used = {line.split()[1] for block in blocks(TOUR, "bash tour") for line in block.splitlines()}
    assert {"demo", "mcp", "recipe", "view"} == commands - used
    assert "rlexp demo\n" in blocks(README, "bash")


def commands_of_the_readme() -> str:
    """The commands that the README explains one by one; a shorter training unless in full."""
    commands = "".join(blocks(README, "bash readme"))
    for part, shorter in SHORTER.items():
        assert part in commands
        commands = commands if IN_FULL else commands.replace(part, shorter)
    return commands


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_of_the_readme_work_as_pasted(tmp_path: Path) -> None:
    """The six commands of the README succeed one after the other; in full, the pair is decided."""
    commands = commands_of_the_readme()
    process = pasted(commands, tmp_path)
    assert 0 == process.returncode, (process.stdout + process.stderr)[-4000:]
    assert 6 == commands.count("rlexp ")
    assert "Traceback" not in process.stdout + process.stderr
    assert "1 identical" in process.stdout
    if IN_FULL:
        assert DECIDED in process.stdout


def test_test_command_is_what_ci_runs() -> None:
    """The README has one test command, and CI uses it."""
    assert ["make test\n"] == blocks(README, "bash test")
    assert "bash test" in (ROOT / ".ci" / "run").read_text()
