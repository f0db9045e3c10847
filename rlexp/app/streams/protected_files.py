"""The files of a workspace on which the environment and its evaluation depend.

They are found without executing anything: from the modules of the environment, their imports are
followed through the workspace. A candidate may change none of them.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from rlexp.errors import ConfigError, RecordError

HIDDEN = ("__pycache__",)


def sums_of_protected(
    folder: Path, modules: Sequence[str], declared: Sequence[str]
) -> dict[str, str]:
    """The sha256 of every protected file, by its path relative to a folder, sorted.

    Args:
        folder: The workspace's folder, or that of a checkout of its code.
        modules: The modules of the workspace that make the environment.
        declared: Further files and folders, relative to the workspace.
    """
    files = {*_imported(folder, modules), *_below(folder, declared)}
    return {str(f.relative_to(folder)): _sum(f) for f in sorted(files)}


def check_declared(folder: Path, declared: Iterable[str]) -> None:
    """Refuse protected paths that do not exist, or are outside of the workspace.

    Raises:
        ConfigError: Names the path.
    """
    for name in declared:
        path = (folder / name).resolve()
        if not path.exists() or not path.is_relative_to(folder.resolve()):
            raise ConfigError(
                f"--protect {name}: there is no such file or folder in {folder}", key="--protect"
            )


def refuse_changed_files(
    frozen: Mapping[str, str], present: Mapping[str, str], what: str, remedy: str
) -> None:
    """Refuse code whose protected files differ from those that a stream has frozen.

    Args:
        frozen: The sha256 of every file at the beginning of the stream.
        present: The same of the code that is examined.
        what: Whose files they are, at the beginning of the sentence.
        remedy: What to do.

    Raises:
        RecordError: Names the first file that differs.
    """
    names = sorted(frozen.keys() | present.keys())
    changed = [name for name in names if frozen.get(name) != present.get(name)]
    if not changed:
        return
    name = changed[0]
    verb = "lacks" if name not in present else "changes" if name in frozen else "adds"
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    raise RecordError(
        f"{what} {verb} {name}{more}, on which the environment or its evaluation depends: {remedy}",
        code="protected",
        key=name,
        allowed=changed,
    )


def _sum(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _below(folder: Path, declared: Iterable[str]) -> Iterator[Path]:
    for name in declared:
        path = folder / name
        if path.is_dir():
            yield from (
                p for p in path.rglob("*") if p.is_file() and not set(HIDDEN) & set(p.parts)
            )
        elif path.is_file():
            yield path


def _imported(folder: Path, modules: Iterable[str]) -> set[Path]:
    """The files of modules, and of all modules of the folder that they import."""
    files, waiting = set[Path](), list(modules)
    while waiting:
        name = waiting.pop()
        for file in files_of(folder, name):
            if file not in files:
                files.add(file)
                waiting += _imports_of(file, folder)
    return files


def files_of(folder: Path, module: str) -> Iterator[Path]:
    """The file of a module and those of its packages, where the folder holds them."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        base = folder.joinpath(*parts[:count])
        # Python prefers a package to a module of the same name: both are watched, so that a
        # candidate cannot put one before the other.
        for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if file.is_file():
                yield file


def _imports_of(file: Path, folder: Path) -> Iterator[str]:
    """The names of the modules that a file may import, also inside functions."""
    package = list(file.relative_to(folder).with_suffix("").parts)[:-1]
    try:
        parsed = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)
