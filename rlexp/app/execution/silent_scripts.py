"""Finds training scripts that certainly cannot report a final evaluation, before they train.

A script is refused only where nothing of it can know where results are written: it is a file of
Python, it is executed by the Python of rlexp, its command names neither of the two files, and no
file that it imports from its folder mentions them. Everything else is left to the script.
"""

import ast
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

PLACEHOLDERS = ("{results}", "{configuration}", "{folder}")
"""Placeholders of a command, which stand for the files of a run."""
PYTHON = re.compile(r"python[0-9.]*")
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
MOST_FILES = 500
LARGEST = 1 << 20
"""Bytes of the largest file that is read."""


def silent_script(command: str) -> Path | None:
    """The script of a command, if it certainly reports nothing to rlexp; None where it may.

    Args:
        command: The command of `algorithm.command`, with its placeholders.
    """
    if any(placeholder in command for placeholder in PLACEHOLDERS):
        return None
    script = _script(shlex.split(command))
    if script is None:
        return None
    try:
        return script if _is_silent(script) else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _script(words: Sequence[str]) -> Path | None:
    """The file that the Python of rlexp executes; None for any other command."""
    if not words or not _is_python_of_rlexp(words[0]) or os.environ.get("PYTHONPATH"):
        return None
    arguments = list(words[1:])
    while arguments and arguments[0] in {"-u", "-O", "-B", "-s", "-E"}:
        arguments.pop(0)
    if not arguments or not arguments[0].endswith(".py") or "{" in arguments[0]:
        return None
    return Path(arguments[0]) if Path(arguments[0]).is_file() else None


def _is_python_of_rlexp(word: str) -> bool:
    if word == "{python}":
        return True
    program = shutil.which(word)
    if program is None or not PYTHON.fullmatch(Path(program).name):
        return False
    # A virtual environment is known by its folder: its programs are links to a shared Python.
    return Path(program).parent.absolute() == Path(sys.executable).parent.absolute()


def _is_silent(script: Path) -> bool:
    """Whether neither the script nor a file that it imports can report anything."""
    folder = script.absolute().parent
    if any(_mentions(path) for path in _settings_beside(folder)):
        return False
    waiting, seen = [script.absolute()], set[Path]()
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
        for name in _imported(tree):
            local = list(_local_files(folder, name))
            if not local and not _is_from_an_index(name):
                return False
            waiting += local
    return True


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
    """The first part of the name of every imported module; empty for a relative import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").partition(".")[0]


def _local_files(folder: Path, name: str) -> Iterator[Path]:
    """The files of a module beside the script, with all modules of a package."""
    if not name:
        # A relative import is of a package, whose files are all read.
        return
    if (folder / f"{name}.py").is_file():
        yield folder / f"{name}.py"
    yield from (folder / name).rglob("*.py") if (folder / name).is_dir() else ()


def _is_from_an_index(name: str) -> bool:
    """Whether a module belongs to Python, was installed from an index, or does not exist.

    A package of the user, which may report for the script, is installed from a folder or a
    repository.
    """
    if not name or name in sys.stdlib_module_names:
        return True
    distributions = packages_distributions().get(name, [])
    if not distributions:
        return find_spec(name) is None
    return not any(_is_installed_from_elsewhere(owner) for owner in distributions)


def _is_installed_from_elsewhere(name: str) -> bool:
    try:
        return distribution(name).read_text("direct_url.json") is not None
    except PackageNotFoundError:
        return True
