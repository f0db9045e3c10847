"""Says for module names where a Python would import them from: its index of packages, or elsewhere.

The Python that executes a training script runs this file, so it imports nothing of rlexp and keeps
to the syntax of Python 3.8.
"""

import json
import sys
import sysconfig
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Iterable, List, Optional, Set  # noqa: UP035 (Python 3.8 cannot subscribe `list`)


def not_from_an_index(names: Iterable[str]) -> List[str]:  # noqa: UP006
    """The modules that belong to packages of the user, which may report for a script.

    Others belong to Python, were installed from an index, or do not exist.
    """
    theirs = _of_the_user()
    return [name for name in names if name in theirs or not _is_installed(name)]


def has(name: str) -> bool:
    """Whether a module can be imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _of_the_user() -> Set[str]:  # noqa: UP006
    """The modules of packages that were installed from a folder or a repository."""
    names: Set[str] = set()  # noqa: UP006
    for package in distributions():
        if package.read_text("direct_url.json") is not None:
            names.update(Path(file.parts[0]).stem for file in package.files or ())
    return names


def _is_installed(name: str) -> bool:
    """Whether a module belongs to Python, to an installed package, or does not exist."""
    if name in sys.builtin_module_names or not has(name):
        return True
    location = _place(name)
    if location is None:
        return True
    kept = [Path(sysconfig.get_path(key)).resolve() for key in ("stdlib", "purelib", "platlib")]
    return any(folder in location.resolve().parents for folder in kept)


def _place(name: str) -> Optional[Path]:  # noqa: UP045
    """The file or the folder of a module; None where it has none."""
    spec = find_spec(name)
    if spec is None or spec.origin in {"built-in", "frozen"}:
        return None
    if spec.origin is not None:
        return Path(spec.origin)
    locations = list(spec.submodule_search_locations or ())
    return Path(locations[0]) if locations else None


def main() -> None:
    """Print the answers for the names in the first argument, as JSON."""
    # The folder of this file is no place where the script could import from.
    del sys.path[0]
    names = json.loads(sys.argv[1])
    answer = {"elsewhere": not_from_an_index(names), "rlexp": has("rlexp")}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
