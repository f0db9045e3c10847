"""A cache of composed configurations, so that a repeated command needs neither Hydra nor yaml.

`compose_once` is the entry. An entry is used only while everything that its composition has read is
unchanged: the words, the content of every yaml file of the study and of rlexp, the answers to Hydra's
questions about files and folders, the code that composes, and the versions of the packages that it
calls. What composing might read besides (environment variables, the clock, plug-ins of Hydra) is not
cached. The cache may be deleted; an error of it is never an error of the command.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlexp.config.config_files import (
    CONF_PATTERNS,
    SWEEP_PATTERNS,
    Reading,
    is_constant,
    is_still,
    packaged_entry,
    packaged_root,
    search_path,
)
from rlexp.protocol.identity import digest
from rlexp.store.files import parse_json, publish, read_file
from rlexp.store.layout import cache_folder
from rlexp.store.secrets import mask_all, secret_values

MOST_ENTRIES = 300
"""Compositions that are kept: an entry takes some kilobytes."""
PACKAGES = ("rlexp", "hydra-core", "omegaconf", "PyYAML", "antlr4-python3-runtime")
"""Distributions whose versions decide what is composed."""
CODE = ("config", "protocol")
"""Folders of rlexp with the code that composes: in a checkout, it changes without a version."""
MATRICES = "benchmark/*.yaml"
"""The matrices, which may lie beside `conf/` too."""
OF_HYDRA = frozenset({"hydra", "_dummy_empty_config_.yaml"})
"""What Hydra itself keeps in its store of configurations that code defines."""


def compose_once(
    kind: str, words: Sequence[str], folder: Path, make: Callable[[Reading], Any]
) -> Any:
    """The JSON values that `make` composes, from the cache where nothing has changed.

    Args:
        kind: What is composed, such as the name of the primary file.
        words: The overrides.
        folder: The study's folder.
        make: Composes, and records what it reads. An error of it is not cached.
    """
    if any("hydra" in word for word in words) or not is_constant(" ".join(words)):
        return make(Reading())
    before = _surroundings(folder)
    entry = cache_folder() / "compositions" / f"{digest([kind, list(words), str(folder)])}.json"
    stored = _read(entry, before)
    if stored is not None:
        return stored
    reading, times = Reading(), _times(before)
    value = make(reading)
    unchanged = _surroundings(folder) == before and _times(before) == times
    if unchanged and _may_be_kept(reading, before, value):
        _store(entry, before, reading, value)
    return value


Surroundings = dict[str, Any]
"""What a composition depends on, besides its words and the answers to Hydra's questions."""


def _surroundings(folder: Path) -> Surroundings:
    roots = search_path(folder)
    files = sorted({path for root in roots for path in _yaml_files(root)})
    code = sorted(p for part in CODE for p in (Path(__file__).parent.parent / part).glob("*.py"))
    return {
        "python": sys.version,
        "versions": [version(package) for package in PACKAGES],
        "roots": [str(root) for root in roots],
        "code": [_content(path) for path in code],
        "files": {str(path): _content(path) for path in files},
    }


def _yaml_files(root: Path) -> Iterator[Path]:
    """Every yaml file below a root that composing may read without asking Hydra."""
    patterns = CONF_PATTERNS if root.name == "conf" else (*SWEEP_PATTERNS, MATRICES)
    for pattern in patterns:
        yield from root.glob(pattern)
    if root == packaged_root():
        yield from packaged_entry().glob("*.yaml")


def _content(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return type(error).__name__


def _times(surroundings: Surroundings) -> list[int]:
    """When the files were changed last: the content alone would hide a change and its reversal."""
    return [_changed(path) for path in surroundings["files"]]


def _changed(path: str) -> int:
    try:
        return Path(path).stat().st_ctime_ns
    except OSError:
        return -1


def _may_be_kept(reading: Reading, surroundings: Surroundings, value: Any) -> bool:
    """Whether a later process with the same surroundings would compose the same."""
    return (
        not reading.open_ended
        and reading.loaded <= surroundings["files"].keys()
        and all(is_constant(Path(path).read_text(encoding="utf-8")) for path in reading.loaded)
        and not _is_extended()
        and _is_json(value)
        # Secrets are refused later, after composing: they must not be on the disk by then.
        and mask_all(value, secret_values(os.environ)) == value
    )


def _is_extended() -> bool:
    """Whether plug-ins of Hydra, or configurations in code, may take part in composing."""
    from hydra.core.config_store import ConfigStore

    in_code = set(ConfigStore.instance().repo) - OF_HYDRA
    return bool(in_code) or find_spec("hydra_plugins") is not None


def _is_json(value: Any) -> bool:
    """Whether JSON keeps a value: it turns numbers that are keys into texts, and knows no NaN."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def _read(entry: Path, surroundings: Surroundings) -> Any:
    """The value of an entry; None where there is none, or where it is no longer valid."""
    try:
        document = parse_json(read_file(entry))
        answers = document["answers"].items()
        valid = document["of"] == digest(surroundings) and not _may_be_extended()
        if valid and all(is_still(question) is answer for question, answer in answers):
            return document["value"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return None


def _may_be_extended() -> bool:
    """Like `_is_extended`, without importing Hydra: where nobody has, nobody has added to it."""
    if "hydra.core.config_store" in sys.modules:
        return _is_extended()
    return find_spec("hydra_plugins") is not None


def _store(entry: Path, surroundings: Surroundings, reading: Reading, value: Any) -> None:
    document = {"of": digest(surroundings), "answers": reading.answers, "value": value}
    # A full disk or a home folder that cannot be written costs time only.
    with suppress(OSError):
        publish(entry, json.dumps(document).encode())
        _remove_oldest(entry.parent)


def _remove_oldest(folder: Path) -> None:
    """Keep the newest entries only."""
    with os.scandir(folder) as entries:
        by_age = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
    for _, path in by_age[:-MOST_ENTRIES]:
        Path(path).unlink(missing_ok=True)
