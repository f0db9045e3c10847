"""`rlexp init`: creates a workspace, or a study file; existing files are never overwritten."""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rlexp.app.results import NextCommand, Schema
from rlexp.config.study_file import is_study_file
from rlexp.config.study_text import EXAMPLE
from rlexp.errors import ConfigError

SECTION_BEGIN = "<!-- rlexp: begin -->"
SECTION_END = "<!-- rlexp: end -->"
"""The marks around the section, so that it can be told from other text in the file."""
AGENTS_TEXT = """\
# rlexp in this workspace

For language models and scripts that train and judge reinforcement-learning configurations here. Every
command below is executed by a test of rlexp.

## Rules

1. **Never choose by test scores.** Try things with `phase=tuning`. Use the test phase, which is the default of
   `rlexp run`, only for configurations that you have decided on. Each configuration whose test scores are seen is
   counted as a look, and the count is printed and reported; it cannot be taken back.
2. **Report what the tool says.** Give the verdict with its number of runs and its test. An undecided pair is
   undecided: name the smallest difference that its seeds could find. Do not repeat it with other seeds until you like
   the answer.
3. **Failed and missing runs belong to the result.** Name them. A run that failed has no score.
4. **Remove nothing.** `rlexp rm` and `rlexp gc` are for people, and so is everything under `runs/`: no file there is
   edited by hand. `rlexp verify` notices it.
5. **Do not grant yourself permission.** Where a command asks for `--allow-import PACKAGE`, code that a file names would
   be executed. Ask the user, who reads the code first.

## Try

Look up the names of settings and never guess them, check the environment, and see the plan before anything is trained:

```console
$ rlexp config list environment --json
$ rlexp config search learning_rate --json
$ rlexp doctor --environment corridor --json
$ rlexp run environment=corridor phase=tuning seeds.tuning=3 budget.steps=5000 experiment=try --dry-run --json
```

The last document (`run-plan`) holds the number of runs, the expected seconds and what is wrong with the plan. Then train.
Several values separated by commas are compared; the same command again trains only what is missing:

```console
$ rlexp run environment=corridor algorithm=ppo,a2c phase=tuning seeds.tuning=3 budget.steps=5000 experiment=try --quiet --json
$ rlexp compare try --phase tuning --json
$ rlexp ls try --where state=failed --json
```

For many values, a sweep tunes on tuning seeds and tests its winner once (`rlexp sweep --help`).

## Decide, then test

Ask how many seeds an effect needs (in standard deviations of the scores), train both labels on test seeds once, and judge:

```console
$ rlexp power --effect 1 --json
$ rlexp run environment=corridor algorithm=ppo,a2c seeds.test=5 budget.steps=5000 experiment=final --quiet --json
$ rlexp compare final --json
$ rlexp report final --json
$ rlexp verify final --json
```

`card.text` of a comparison is the answer in one sentence, `card.basis` its test, and `card.looks` the count of looks.

To improve step by step, do not keep what looks better on a few seeds. Begin a stream once, and propose each candidate to it;
it is kept only if the evidence suffices, with errors controlled over all candidates:

```console
$ rlexp propose loop --begin environment=corridor budget.steps=5000 --json
$ rlexp propose loop --json
```

`rlexp propose loop algorithm.learning_rate=0.001 --json` judges a candidate. `rlexp propose loop --final` closes the stream and
uses test seeds: ask the user first.

To find out whether a change of code made learning worse, write a baseline before the change and judge after it:

```console
$ rlexp gate --write baseline.json environment=corridor budget.steps=5000 seeds.tuning=10 --margin 20 --quiet
$ rlexp gate baseline.json --budget 30 --json
```

## Read results

- With `--json`, standard output carries one document and nothing else; it names its schema and version. Progress
  and remarks go to standard error.
- An error is a document of the schema `error` with a stable `code`, the `allowed` values and the `command` to type next.
- `rlexp config schema run --json` gives the JSON Schema of what a command writes.

```console
$ rlexp config schema run --json
$ rlexp show final --json
$ rlexp status --json
```

| exit code | meaning |
|---|---|
| 0 | everything that was asked for is complete |
| 1 | something failed or is missing; `verify` has found a record that is not what was written |
| 2 | the command or the configuration is wrong |
| 3 | a check failed: of `doctor`, or of `--strict` |
| 4 | `rlexp gate`: worse than the baseline by more than the margin |
| 5 | `rlexp gate`: undecided within its time; `rlexp propose`: undecided with its seeds |
| 6 | `rlexp propose`: discarded |
| 69 | a tracker's service does not answer |
| 70 | the processes that execute runs could not be started |
| 75 | stopped by a scheduler before its time limit: give the same command again |
| 130, 143 | interrupted: give the same command again |

## Long runs

Every command may be killed at any moment. The same command again continues from the last checkpoint, with the same
final numbers. `rlexp status` shows the progress from anywhere, and `rlexp cancel EXPERIMENT` stops runs; they can go on.
Where your calls have a time limit, start `rlexp run` in the background, and look with `rlexp status EXPERIMENT --json`.

By the Model Context Protocol, `rlexp mcp` (from the extra `mcp`) offers list, show, status, search, run, cancel, propose, compare and
report, with the same documents. It never removes anything.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold:
    """The files of a new workspace.

    Attributes:
        files: The files that were written; their paths are relative if the given folder was.
        extended: The files to whose end a section was added; what they held before is unchanged.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("scaffold")

    files: tuple[Path, ...]
    extended: tuple[Path, ...] = ()
    next: tuple[NextCommand, ...]


COMMANDS = (
    ("check the environment", "rlexp doctor --environment corridor"),
    ("train on it", "rlexp run environment=corridor budget.steps=5000 seeds.test=2"),
    ("list the experiments", "rlexp ls"),
    ("list all environments", "rlexp config list environment"),
)
"""Suggested commands in the new folder, each with its purpose."""
ENVIRONMENT = '''\
"""A corridor: the example environment of this study; replace it with your own."""

from typing import Any

import gymnasium
import numpy as np


class Corridor(gymnasium.Env[np.ndarray, int]):
    """Walk from a random place to the right end: -1 a step, +10 at the end."""

    def __init__(self, length: int = 10, render_mode: str | None = None) -> None:
        self.length = length
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.position = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; everything random comes from `self.np_random`, which `seed` seeds."""
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.length))
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Walk left (0) or right (1)."""
        self.position = max(self.position + (1 if action == 1 else -1), 0)
        arrived = self.position >= self.length
        return self.observe(), 10.0 if arrived else -1.0, arrived, False, {}

    def observe(self) -> np.ndarray:
        """The position as a part of the length."""
        return np.array([self.position / self.length], dtype=np.float32)


gymnasium.register("Corridor-v0", entry_point=Corridor, max_episode_steps=100)
'''
OPTION = """\
# Walk to the right end of a corridor: -1 a step, +10 at the end, at most 100 steps.
defaults: [gymnasium, _self_]
id: Corridor-v0
imports: [corridor]
arguments: {length: 10}
reference:
  minimum: -100.0
  maximum: 10.0
  source: "bounds: at most 100 steps, at least one"
"""
SWEEPS = """\
# Sweeps

One yaml per question lies here: what is searched, and with which budget.
"""
IGNORED = """\
/reports/
/runs/
/tensorboard/
/videos/
/mlartifacts/
/mlflow.db
/wandb/
__pycache__/
"""
README = """\
# {name}

A study with rlexp.

```
corridor.py                     an example environment: replace it with your own
conf/environment/corridor.yaml  makes it known as environment=corridor
conf/                           your own options; they win over those of rlexp
sweeps/                         one yaml per question
runs/                           the records, written by rlexp (git-ignored)
reports/                        written by rlexp report (git-ignored)
```

In this folder:

```console
{commands}
```

Commit the folder to git before you train: every record then names the commit it comes from.
"""


def files(name: str) -> dict[str, str]:
    """The files of a new study, by their paths in it."""
    commands = "\n".join(f"$ {command}" for _, command in COMMANDS)
    return {
        "corridor.py": ENVIRONMENT,
        "conf/environment/corridor.yaml": OPTION,
        "sweeps/README.md": SWEEPS,
        ".gitignore": IGNORED,
        "README.md": README.format(name=name, commands=commands),
    }


def init(folder: str) -> Scaffold:
    """Write the files of a new workspace.

    Raises:
        ConfigError: A file already exists or cannot be written; nothing was written.
    """
    root = Path(folder).expanduser()
    scaffold = files(root.absolute().name or "Study")
    if existing := [name for name in scaffold if os.path.lexists(root / name)]:
        raise ConfigError(
            f"{root.absolute()} already holds {', '.join(existing)}; existing files are not "
            "overwritten, so choose another folder: rlexp init NAME",
        )
    _write(root, scaffold)
    return Scaffold(
        files=tuple(root / name for name in scaffold),
        next=tuple(
            NextCommand(why=why, command=command) for why, command in _next_steps(root, COMMANDS)
        ),
    )


def _next_steps(root: Path, commands: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Commands in a folder, each with its purpose, after the one that goes there."""
    if root.absolute() != Path.cwd():
        yield "go to the folder", f"cd {shlex.quote(str(root))}"
    yield from commands


STUDY = "study.yaml"
"""The name of a new study file."""


def init_study(target: str) -> Scaffold:
    """Write a commented study file.

    Args:
        target: The path of the file, or the folder that receives `study.yaml`.

    Raises:
        ConfigError: The file already exists or cannot be written; nothing was written.
    """
    path = Path(target).expanduser()
    path = path if is_study_file(target) else path / STUDY
    if os.path.lexists(path):
        raise ConfigError(
            f"{path} exists already, and existing files are not overwritten; choose another name: "
            "rlexp init --study OTHER.yaml",
        )
    file = shlex.quote(str(path))
    text = EXAMPLE.format(file=file)
    _write(path.parent, {path.name: text})
    steps = (
        ("see what it would run", f"rlexp run {file} --dry-run"),
        ("run it", f"rlexp run {file}"),
    )
    return Scaffold(
        files=(path,), next=tuple(NextCommand(why=why, command=command) for why, command in steps)
    )


AGENTS = "AGENTS.md"
"""The file that programs read first in a folder. Source: https://agents.md"""
AGENTS_COMMANDS = (
    ("list the experiments", "rlexp ls"),
    ("see how a program starts the MCP server", "rlexp mcp --help"),
)
"""Suggested commands after the file is written, each with its purpose."""


def init_agents(folder: str) -> Scaffold:
    """Write how a program works in a workspace into its file AGENTS.md, or to the end of the file.

    Raises:
        ConfigError: The file holds another version of the section, or cannot be read or written;
            nothing was written.
    """
    path = Path(folder).expanduser() / AGENTS
    section = f"{SECTION_BEGIN}\n{AGENTS_TEXT}{SECTION_END}\n"
    steps = tuple(
        NextCommand(why=why, command=command)
        for why, command in _next_steps(path.parent, AGENTS_COMMANDS)
    )
    if not os.path.lexists(path):
        _write(path.parent, {path.name: section})
        return Scaffold(files=(path,), next=steps)
    try:
        present = path.read_text(encoding="utf-8")
        if section in present:
            return Scaffold(files=(), next=steps)
        if SECTION_BEGIN in present:
            raise ConfigError(
                f"{path} holds a section of rlexp that differs from the present one: keep what you "
                f"have changed elsewhere, remove the lines from {SECTION_BEGIN} to {SECTION_END}, and give the same "
                "command again"
            )
        # Only the end is written: whatever happens, the text before it stays.
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{_line_end(present)}\n{section}")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot extend {path}: {error}; make it a text file") from error
    return Scaffold(files=(), extended=(path,), next=steps)


def _line_end(text: str) -> str:
    return "" if text.endswith("\n") or not text else "\n"


def _write(root: Path, scaffold: dict[str, str]) -> None:
    """Write every file, or none: after a failure, written files and new folders are removed."""
    written: list[Path] = []
    made: list[Path] = []
    try:
        for name, content in scaffold.items():
            path = root / name
            # Only folders that did not exist before may be removed after a failure.
            made += [p for p in reversed(path.parents) if not p.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            # Mode "x" fails if another process has created the file since the check.
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(content)
    except OSError as error:
        for path in written:
            path.unlink()
        # Inner folders come last in the list, and only an empty folder can be removed.
        for path in reversed(made):
            if path.is_dir():
                path.rmdir()
        raise ConfigError(
            f"cannot write {error.filename}: {error.strerror}; choose another folder",
        ) from error
