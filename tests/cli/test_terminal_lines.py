"""Every command prints lines that fit a terminal, end without spaces, and can be pasted."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import Printed, typed
from comparisons import with_scores
from quick_parts import quick_parts
from rich.cells import cell_len
from stored_runs import failed, study
from stored_sweeps import finished_sweep

from rlexp.console.folding import SHELL_WORD, UNIT, folded

quick = pytest.fixture(autouse=True)(quick_parts)

STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LONGEST_SCREEN = 24
"""Lines of the smallest usual terminal."""
QUOTED = f"a parameter is no finite number: tensor([{', '.join(['[nan, nan]'] * 60)}])"
PAIR = {"ppo": (90.0, 20.0, 70.0, 93.0, 94.0), "a2c": (10.0, 81.0, 12.0, 73.0, 14.0)}
COMMANDS = (
    *(
        "ls",
        "ls pair",
        "ls made_up",
        "status",
        "status made_up",
        "verify",
        "sync",
        "gc",
        "gc --states",
    ),
    *("show pair", "show pair --full", "show made_up", "show made_up --full", "show broken"),
    *("show broken --full", "plot pair", "plot pair --list-metrics", "best made_up"),
    *("compare pair", "compare pair --full", "compare broken", "compare made_up", "report pair"),
    *("report made_up", "report broken", "power --seeds 5", "power pair --difference 20"),
    *(
        "note broken 'a note with some words, which is longer than most terminals are wide, as they say'",
    ),
    *(
        "note broken",
        "tag broken good",
        "export csv pair --output scores.csv",
        "rm pair",
        "cancel pair",
    ),
    *("export rliable pair --output scores.npz", "config list", "config list tuner"),
    *("config search gamma", "config schema", "config schema report-files", "config validate"),
    *("doctor", "--help", "run --help", "import --help", "config --help", "logs broken"),
    *("show nothing", "export csv pair", "power", "run seeds=3", "import auto x --experiment y"),
    *("run budget.steps=10", "extend pair budget.steps=1", "compare pair --quiet", "worker pair"),
)
ON_ONE_SCREEN = (
    "show pair",
    "compare pair",
    "status",
    "status made_up",
    "show made_up",
    "report pair",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a comparison, failed runs whose reason is long, and a finished sweep."""
    made = tmp_path_factory.mktemp("a folder with spaces")
    finished_sweep(made, tmp_path_factory)
    workspace = study(made)
    with_scores(workspace, PAIR, "pair")
    broken = with_scores(workspace, {"ppo": (1.0, 2.0), "a2c": ()}, "broken")
    for seed in range(2):
        broken.attempt(seed, failed(reason=QUOTED), label="a2c")
    return made


def on_terminal(folder: Path, columns: int, command: str) -> Printed:
    """What a command prints on a terminal with this many columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTY_COMPATIBLE", "1")
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("RLEXP_HOME", str(folder / "home"))
        patch.delenv("RLEXP_RUNS", raising=False)
        patch.delenv("NO_COLOR", raising=False)
        return typed(folder, *shlex.split(command))


def fits(line: str, columns: int) -> bool:
    """Whether a line fits; a single word or quoted text may be wider, and a terminal folds it."""
    content = line.removesuffix(" \\").strip()
    whole = 1 in {len(UNIT.findall(content)), len(SHELL_WORD.findall(content))}
    return cell_len(line) <= columns or whole


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_too_wide_or_ends_with_spaces(folder: Path, command: str, columns: int) -> None:
    """A command prints no line that is wider than the terminal or ends with a space."""
    printed = on_terminal(folder, columns, command)
    lines = STYLES.sub("", printed.out + printed.err).splitlines()
    assert lines
    assert [] == [line for line in lines if line != line.rstrip()]
    assert [] == [line for line in lines if not fits(line, columns)]


@pytest.mark.parametrize("command", ON_ONE_SCREEN)
def test_the_answer_fits_one_screen(folder: Path, command: str) -> None:
    """The short forms print at most 24 lines of 80 columns, and the last one is a command."""
    lines = STYLES.sub("", on_terminal(folder, 80, command).out).splitlines()
    assert len(lines) <= LONGEST_SCREEN, lines
    assert "rlexp " in lines[-1]


def test_a_reason_that_quotes_an_array_is_shortened(folder: Path) -> None:
    """The reason of a failure takes two lines at most, and `--full` has all of it."""
    assert QUOTED not in on_terminal(folder, 20_000, "show broken").out
    assert QUOTED in on_terminal(folder, 20_000, "show broken --full").out


def test_an_empty_folder_has_nothing_to_remove(tmp_path: Path) -> None:
    """`gc` says that there is nothing to remove instead of a size of 0 B."""
    expected = "nothing to remove: no finished run keeps more than its policy\n"
    assert expected == on_terminal(tmp_path, 80, "gc").out


def test_a_report_gives_the_answer_of_the_comparison(folder: Path) -> None:
    """`report` begins with the answer of `compare`, and names the page and the next command."""
    answer = on_terminal(folder, 200, "compare pair").out.splitlines()[0]
    for _ in ("computed", "from the cache"):
        lines = on_terminal(folder, 200, "report pair").out.splitlines()
        assert answer == lines[0]
        assert lines[-2].endswith("report.html")
        assert "To compare in the terminal: rlexp compare pair" == lines[-1]


@pytest.mark.parametrize("width", [20, 40, 79])
def test_a_folded_command_is_the_same_command(width: int) -> None:
    """A shell reads the words of a command that was folded as if it stood on one line."""
    command = [
        "rlexp",
        "run",
        "seeds.test=[0, 1]",
        "budget.steps=500",
        "experiment=a b's",
        "--full",
    ]
    first, *others = folded(f"To add seeds: {shlex.join(command)}", width)
    assert "To add seeds:" == first
    assert command == shlex.split("\n".join(others).replace("\\\n", ""))


@pytest.mark.parametrize(
    "command",
    [
        "WANDB_MODE=offline wandb sync runs/duel/trackers/wandb-acc365a4/wandb",
        "mlflow ui --backend-store-uri 'sqlite:////a folder/mlflow.db'",
        "tensorboard --logdir 'a folder/tensorboard'",
    ],
)
def test_a_folded_command_of_a_tracker_is_the_same_command(command: str) -> None:
    """A command of another program is continued with backslashes, too."""
    _, *others = folded(f"duel in wandb: the data is local; to see it: {command}", 50)
    start = next(n for n, line in enumerate(others) if command.split(maxsplit=1)[0] in line)
    read = shlex.split("\n".join(others[start:]).replace("\\\n", ""))
    assert shlex.split(command) == read


def test_a_command_in_quotes_stays_whole() -> None:
    """A sentence is folded between words, but not inside of a quoted command."""
    line = "rlexp: the runs' folder matches no name; see 'rlexp ls --columns a,b' for all of them"
    parts = folded(line, 50)
    assert any("'rlexp ls --columns a,b'" in part for part in parts)
    assert line == " ".join(part.strip() for part in parts)
