"""Finds training scripts that certainly cannot report a final evaluation, before they train.

A script is refused only where nothing of it can know where results are written: it is a file of
Python, its command names neither of the two files, and no file that it imports from its folder
mentions them. It is refused, too, where it imports rlexp and its Python does not have it.
Everything else is left to the script.
"""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.algorithms.external import file_path
from rlexp.app.execution.scripts import script_imports

PLACEHOLDERS = ("{results}", "{configuration}", "{folder}")
"""Placeholders of a command, which stand for the files of a run."""
PYTHON = re.compile(r"python[0-9.]*")
SHELL = re.compile(r"(ba|da|z)?sh")
PYTHON_FLAGS = frozenset({"-u", "-O", "-B", "-s", "-E"})
"""Options of Python without a value, with which it finds the same packages."""
FLAGS_WITHOUT_PACKAGES = frozenset({"-S", "-I"})
"""Options of Python without a value, with which it finds fewer packages."""
WITHOUT_RESULTS = re.compile(r"RLEXP_(FOLDER|SEED)")
"""Variables that a script may read without reporting anything."""
MENTION = re.compile("rlexp", re.IGNORECASE)
DYNAMIC = {
    *("importlib", "runpy", "subprocess", "multiprocessing", "ctypes", "pickle", "hydra"),
    *("omegaconf", "dotenv", "sh"),
}
"""Modules with which a script can execute or read what its text does not show."""
CALLS = {"exec", "eval", "__import__", "compile", "system", "popen", "getenv", "fork"}
"""Functions with which it can do so; names of variables may be computed."""
SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".env")
"""Endings of files beside a script that may name the variables for it."""
LONGEST_ANSWER = 30.0
"""Seconds after which another Python counts as giving no answer."""
MOST_FILES = 500
LARGEST = 1 << 20
"""Bytes of the largest file that is read."""


@dataclass(frozen=True, slots=True)
class ExecutedScript:
    """A file of Python and the Python that executes it.

    Attributes:
        path: The file.
        program: The Python; None for that of rlexp.
    """

    path: Path
    program: str | None

    def imports_elsewhere(self, names: Collection[str]) -> bool:
        """Whether a module may belong to a package of the user, which may report for the script."""
        if self.program is None:
            return bool(script_imports.not_from_an_index(names))
        answer = _answer(self.program, names)
        return answer is None or bool(answer["elsewhere"])

    @property
    def lacks_rlexp(self) -> bool:
        """Whether its Python certainly has no rlexp."""
        if self.program is None or (self.path.absolute().parent / "rlexp.py").exists():
            return False
        answer = _answer(self.program, ())
        return answer is not None and not answer["rlexp"]


def silent_script(command: str) -> ExecutedScript | None:
    """The script of a command, if it certainly reports nothing to rlexp; None where it may.

    Args:
        command: The command of `algorithm.command`, with its placeholders.
    """
    if any(placeholder in command for placeholder in PLACEHOLDERS):
        return None
    return _script_if(command, _is_silent)


def script_without_rlexp(command: str) -> ExecutedScript | None:
    """The script of a command, if it certainly imports rlexp and its Python lacks it.

    Args:
        command: The command of `algorithm.command`, with its placeholders.
    """
    return _script_if(command, lambda script: _imports_rlexp(script.path) and script.lacks_rlexp)


def missing_script(command: str) -> Path | None:
    """The script that a Python or a shell is to execute, if there is no such file.

    Args:
        command: The command of `algorithm.command`, with its placeholders.
    """
    program, *arguments = shlex.split(command)
    name = Path(program).name
    if not (program == "{python}" or PYTHON.fullmatch(name) or SHELL.fullmatch(name)):
        return None
    while arguments and arguments[0] in PYTHON_FLAGS | FLAGS_WITHOUT_PACKAGES:
        arguments.pop(0)
    if not arguments or arguments[0].startswith("-"):
        return None
    path = file_path(arguments[0])
    # A shell looks for a name without a folder on PATH, too.
    if SHELL.fullmatch(name) and "/" not in arguments[0] and shutil.which(arguments[0]):
        return None
    # The value of any other placeholder is not known yet.
    return None if "{" in str(path) or path.exists() else path


def _script_if(command: str, holds: Callable[[ExecutedScript], bool]) -> ExecutedScript | None:
    """The script of a command for which something holds; None where it cannot be read."""
    script = _script(shlex.split(command))
    try:
        return script if script is not None and holds(script) else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _script(words: Sequence[str]) -> ExecutedScript | None:
    """The file that a Python executes; None for any other command."""
    if not words or os.environ.get("PYTHONPATH"):
        return None
    program = sys.executable if words[0] == "{python}" else shutil.which(words[0])
    if program is None or not (words[0] == "{python}" or PYTHON.fullmatch(Path(program).name)):
        return None
    arguments = list(words[1:])
    while arguments and arguments[0] in PYTHON_FLAGS:
        arguments.pop(0)
    if not arguments or not arguments[0].endswith(".py") or "{" in arguments[0]:
        return None
    # A virtual environment is known by its folder: its programs are links to a shared Python.
    same = Path(program).parent.absolute() == Path(sys.executable).parent.absolute()
    path = Path(arguments[0])
    return ExecutedScript(path, None if same else program) if path.is_file() else None


def _answer(program: str, names: Collection[str]) -> Any:
    """What another Python says about modules; None where it does not answer."""
    words = [program, script_imports.__file__, json.dumps(sorted(names))]
    try:
        printed = subprocess.run(
            words, capture_output=True, text=True, timeout=LONGEST_ANSWER, check=True
        )
        return json.loads(printed.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _imports_rlexp(path: Path) -> bool:
    """Whether a script imports rlexp in any case: at the top, or where it is the main program."""
    tree = ast.parse(path.read_text())
    nodes = [*tree.body]
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            nodes += node.body
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    module = ast.Module(body=list[ast.stmt](imports), type_ignores=[])
    return "rlexp" in _imported(module)


def _is_silent(script: ExecutedScript) -> bool:
    """Whether neither the script nor a file that it imports can report anything."""
    folder = script.path.absolute().parent
    if any(_mentions(path) for path in _settings_beside(folder)):
        return False
    waiting, seen, installed = [script.path.absolute()], set[Path](), set[str]()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if len(seen) > MOST_FILES or _mentions(path):
            return False
        tree = ast.parse(path.read_text())
        if any(_is_dynamic(node) for node in ast.walk(tree)):
            return False
        for name in filter(None, _imported(tree)):
            local = list(_local_files(folder, name))
            installed |= set() if local else {name}
            waiting += local
    return not script.imports_elsewhere(installed)


def _settings_beside(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.name.endswith(SETTINGS) and path.is_file())


def _mentions(path: Path) -> bool:
    """Whether a file may name where results are written; a large one may."""
    if path.stat().st_size > LARGEST:
        return True
    return MENTION.search(WITHOUT_RESULTS.sub("", path.read_text())) is not None


def _is_dynamic(node: ast.AST) -> bool:
    """Whether a node can do what the text does not show."""
    match node:
        case ast.Import():
            return any(alias.name.partition(".")[0] in DYNAMIC for alias in node.names)
        case ast.ImportFrom():
            return (node.module or "").partition(".")[0] in DYNAMIC
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            # `eval` is also a method of networks.
            return name in CALLS and not (name == "eval" and isinstance(node.func, ast.Attribute))
        case ast.Attribute(attr=("environ" | "environb")):
            return True
    return False


def _imported(tree: ast.Module) -> Iterator[str]:
    """The first part of the name of every imported module; empty for a relative import.

    A relative import is of a package, whose files are all read.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").partition(".")[0]


def _local_files(folder: Path, name: str) -> Iterator[Path]:
    """The files of a module beside the script, with all modules of a package."""
    if (folder / f"{name}.py").is_file():
        yield folder / f"{name}.py"
    yield from (folder / name).rglob("*.py") if (folder / name).is_dir() else ()
