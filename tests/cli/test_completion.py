"""The Tab key completes words, experiments and runs, in real shells and within a short time."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from in_full import IN_FULL

from rlexp.app.commands.exchange.export import FORMATS as EXPORT_FORMATS
from rlexp.app.reporting.build import FORMATS as REPORT_FORMATS
from rlexp.cli.completion import join_words

RLEXP = Path(sys.executable).with_name("rlexp")
PATIENCE = 60
"""Seconds after which a shell counts as hung; the tests share their processors."""
RUN = "ppo-test-0-0123456789"
SHELLS = {
    "bash": ("--noprofile",),
    "zsh": ("-i",),
}
PRINT_ARGUMENTS = "rlexp() { printf '<%s>' \"$@\"; echo ' end'; }"
"""Replaces the command after its completion is installed: the words become visible."""
LINES = {
    "run algorithm=pp\t": "<run><algorithm=ppo>",
    "run algorithm=ppo,a2\t": "<run><algorithm=ppo,a2c>",
    "run bud\tst\t7": "<run><budget.steps=7>",
    "run algorithm=dqn algorithm.ta\trget\t9": "<run><algorithm=dqn>"
    "<algorithm.target_update_interval=9>",
    "show duel/p\t": f"<show><duel/{RUN}>",
    "diff du\t": f"<diff><duel/{RUN}>",
    "compare duel/l\t": "<compare><duel/lazy>",
    "export mar\t": "<export><marl-eval>",
    "report --format lat\t": "<report><--format><latex>",
    "sweep qui\t": "<sweep><quick>",
}
"""What is typed, and the arguments that the command gets."""
QUICK = (*list(LINES)[:4:3], "show duel/p\t", "export mar\t")
"""The lines that are typed in every run of the tests; the others take long."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one experiment that has one run and one label."""
    folder = tmp_path_factory.mktemp("study")
    run = folder / "runs" / "duel" / RUN
    run.mkdir(parents=True)
    (run / "spec.json").write_text("{}")
    definition = {"schema": 2, "configurations": [{"label": "lazy"}]}
    (run.parent / "experiment.json").write_text(json.dumps(definition))
    return folder


def shell_in(study: Path, name: str, home: Path) -> "pexpect.spawn[str]":
    """A shell that has loaded its file of settings from `home`."""
    path = f"{RLEXP.parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"HOME": str(home), "ZDOTDIR": str(home), "PATH": path, "TERM": "dumb"}
    environment = {**os.environ, **variables, "PS1": "> ", "LC_ALL": "C.UTF-8"}
    return pexpect.spawn(
        name,
        list(SHELLS[name]),
        cwd=str(study),
        env=environment,
        encoding="utf-8",
        timeout=PATIENCE,
        dimensions=(50, 300),
    )


@pytest.fixture(scope="module", params=SHELLS)
def shell(
    request: pytest.FixtureRequest, study: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["pexpect.spawn[str]"]:
    """A shell in which a user has typed `rlexp --install-completion`."""
    name, home = request.param, tmp_path_factory.mktemp("home")
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    # Without its own file, zsh asks a new user questions.
    (home / ".zshrc").write_text("PS1='> '\n")
    first = shell_in(study, name, home)
    first.sendline("rlexp --install-completion; echo installed=$?")
    first.expect("installed=0")
    first.close(force=True)
    second = shell_in(study, name, home)
    second.sendline(f"{PRINT_ARGUMENTS}; echo rea''dy")
    second.expect("ready")
    yield second
    second.close(force=True)


@pytest.mark.parametrize("typed", LINES if IN_FULL else QUICK)
def test_a_shell_completes_what_is_typed(shell: "pexpect.spawn[str]", typed: str) -> None:
    """The Tab key completes groups, lists, keys, settings of a chosen option, runs and labels."""
    shell.send(f"rlexp {typed}\r")
    shell.expect(r"(<[^\r\n]*>) end")
    assert shell.match is not None
    assert LINES[typed] == shell.match[1]


def answers(study: Path, *words: str) -> list[str]:
    """The answers for the last of the words after `rlexp`, as zsh gets them."""
    variables = {"_RLEXP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": " ".join(words)}
    process = subprocess.run(
        [RLEXP],
        cwd=study,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == process.stderr
    return re.findall(r'^(?:_arguments \'\*: :\(\()?"([^"]*)"', process.stdout, re.MULTILINE)


def test_a_switch_has_both_values(study: Path) -> None:
    """A switch is completed to true and to false, and a choice to every word that it takes."""
    key = "budget.evaluation_deterministic"
    assert [f"{key}=true", f"{key}=false"] == answers(study, "rlexp", "run", f"{key}=")
    assert ["phase=test", "phase=tuning"] == answers(study, "rlexp", "run", "phase=")


def test_a_resumed_run_takes_no_word_that_defines_it(study: Path) -> None:
    """After `resume`, settings of checkpoints are completed, and the number of steps is not."""
    found = answers(study, "rlexp", "resume", "duel", "budget.")
    assert "budget.checkpoint_minutes=" in found
    assert "budget.steps=" not in found


def test_damaged_files_leave_the_shell_silent(study: Path, tmp_path: Path) -> None:
    """A damaged definition and a damaged configuration print nothing into the line of the user."""
    (tmp_path / "runs" / "duel").mkdir(parents=True)
    (tmp_path / "runs" / "duel" / "experiment.json").write_text("{")
    (tmp_path / "conf" / "algorithm").mkdir(parents=True)
    (tmp_path / "conf" / "algorithm" / "ppo.yaml").write_text("a: [")
    assert [] == answers(tmp_path, "rlexp", "compare", "duel/")
    assert [] == answers(tmp_path, "rlexp", "run", "algorithm.l")


def test_choices_are_those_of_the_commands(study: Path) -> None:
    """The kinds that are completed are the kinds that the commands take."""
    assert sorted(EXPORT_FORMATS) == sorted(answers(study, "rlexp", "export", ""))
    assert sorted(REPORT_FORMATS) == sorted(answers(study, "rlexp", "report", "--format", ""))


@pytest.mark.parametrize(
    ("divided", "expected"),
    [
        (["rlexp", "run", "a", "=", "p"], (["rlexp", "run", "a=p"], 2)),
        (["rlexp", "run", "a", "="], (["rlexp", "run", "a="], 2)),
        (["rlexp", "run", "a", "=", ""], (["rlexp", "run", "a=", ""], 3)),
        (["rlexp", "run", "a", "=", "b", ":", "1", "c"], (["rlexp", "run", "a=b:1", "c"], 3)),
        (["rlexp", ""], (["rlexp", ""], 1)),
    ],
)
def test_the_words_of_bash_are_joined(divided: list[str], expected: tuple[list[str], int]) -> None:
    """Words around = and : are one word again, and a space begins a new one."""
    assert expected == join_words(divided, len(divided) - 1)


HEAVY = ("torch", "hydra", "numpy", "rlexp.engine", "rlexp.config.validate")
"""Modules that a completion never needs. Some versions of Typer import pydantic by themselves."""
LOOK = """
import sys
from rlexp.__main__ import main
heavy = sys.argv[1:]
sys.argv = ["rlexp"]
try:
    main()
finally:
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""


def test_a_completion_imports_nothing_heavy(study: Path) -> None:
    """A completion imports no learning library, no Hydra and no engine."""
    for line in ("run algorithm.l", "show du", "compare duel/", "sweep q"):
        variables = {"_RLEXP_COMPLETE": "complete_bash", "COMP_CWORD": str(len(line.split()))}
        words = "\n".join(["rlexp", *line.split()])
        process = subprocess.run(
            [sys.executable, "-c", LOOK, *HEAVY],
            cwd=study,
            env={**os.environ, **variables, "COMP_WORDS": words},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "" != process.stdout, line
        assert "[]\n" == process.stderr, line


def processor_time(study: Path, *arguments: str, **variables: str) -> float:
    """The least processor time of three executions of `rlexp`, in seconds."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    times = []
    for _ in range(3):
        before = spent()
        subprocess.run(
            [RLEXP, *arguments],
            cwd=study,
            env={**os.environ, **variables},
            capture_output=True,
            check=False,
        )
        times.append(spent() - before)
    return min(times)


def test_a_completion_costs_little_more_than_the_version(study: Path) -> None:
    """A completion takes less than three times the processor time of `rlexp --version`."""
    words = "rlexp\nrun\nalgorithm\n=\np"
    completion = processor_time(
        study, _RLEXP_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD="4"
    )
    assert completion < 3 * processor_time(study, "--version")
