"""In what the packages and the machine of now differ from those that a run was recorded with."""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, distribution
from json import loads
from os import environ
from pathlib import Path
from platform import python_version
from typing import Any

from packaging.utils import canonicalize_name

from rlexp.app.execution.reproducibility import LEARNING, versions
from rlexp.protocol.spec import RunSpec
from rlexp.store.provenance import machine, packages

DECIDING = re.compile(r"PYTHONHASHSEED|(CUDA|OMP|MKL|OPENBLAS|NUMEXPR|TORCH|PYTORCH)[A-Z0-9_]*")
"""Variables that can change numbers."""
HARMLESS = re.compile(r".*(_NUM_THREADS|_DIR|_PATH|_HOME|_LOGS)")
"""Variables that do not: compute.threads decides on threads, and a place is no number."""


@dataclass(frozen=True, slots=True)
class Change:
    """What was recorded, and what is there now; one of them may be missing."""

    name: str
    then: str | None
    now: str | None

    def __str__(self) -> str:
        """One phrase (`numpy 2.1.0 then, 2.3.1 now`)."""
        return f"{self.name} {self.then or 'not there'} then, {self.now or 'not there'} now"

    @property
    def wish(self) -> str | None:
        """What pip has to be asked for to install what was there then, if it can."""
        then, now = ((v or "").partition("+")[0] for v in (self.then, self.now))
        return f"{self.name}=={then}" if then and then != now else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What differs around a run.

    Attributes:
        decisive: Distributions and the Python that decide the numbers of the run.
        machine: Processor, and variables that can change numbers.
        others: Distributions that decide no number of this run, as far as can be seen.
        editable: Where rlexp itself is imported from, if it is installed for editing.
        known: Whether anything was recorded to compare with.
    """

    decisive: tuple[Change, ...]
    machine: tuple[Change, ...]
    others: tuple[Change, ...]
    editable: Path | None
    known: bool

    @property
    def install(self) -> str | None:
        """The command that installs the decisive packages as they were, if one can."""
        wishes = [
            wish
            for change in self.decisive
            if change.name not in {"python", "rlexp" if self.editable else ""}
            and (wish := change.wish) is not None
        ]
        return shlex.join(["pip", "install", *wishes]) if wishes else None


def compare(provenance: Mapping[str, Any], specs: Sequence[RunSpec], folder: Path) -> Surroundings:
    """Compare what was recorded with what is there now.

    Args:
        provenance: What was recorded of an attempt.
        specs: The runs; what their environments import decides their numbers, too.
        folder: Where the runs' own modules lie; nothing of it is imported.
    """
    then, now = _recorded_packages(provenance), _by_name(packages())
    with _findable(folder):
        deciding = set(LEARNING).union(*(versions(spec) for spec in specs))
    changed = [
        Change(n, then.get(n), now.get(n))
        for n in sorted({*then, *now})
        if then and then.get(n) != now.get(n)
    ]
    python = provenance.get("python")
    mine = (
        [Change("python", str(python), python_version())]
        if python is not None and python != python_version()
        else []
    )
    return Surroundings(
        decisive=(*mine, *(c for c in changed if c.name in deciding and c.then is not None)),
        machine=tuple(_machine(provenance)),
        others=tuple(c for c in changed if c.name not in deciding),
        editable=editable("rlexp"),
        known=bool(then),
    )


def editable(name: str) -> Path | None:
    """The folder of a distribution that is installed for editing, or nothing."""
    try:
        plain = loads(distribution(name).read_text("direct_url.json") or "{}")
        told = plain["url"] if plain.get("dir_info", {}).get("editable") else None
    except (PackageNotFoundError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return Path(str(told).removeprefix("file://")) if told else None


def _recorded_packages(provenance: Mapping[str, Any]) -> dict[str, str]:
    found = provenance.get("packages")
    return _by_name(found) if isinstance(found, Mapping) else {}


def _by_name(found: Mapping[Any, Any]) -> dict[str, str]:
    return {str(canonicalize_name(str(name))): str(version) for name, version in found.items()}


def _machine(provenance: Mapping[str, Any]) -> Iterator[Change]:
    then = provenance.get("machine")
    if isinstance(then, Mapping) and then.get("processor") is not None:
        processor = str(machine()["processor"])
        if then["processor"] != processor:
            yield Change("processor", str(then["processor"]), processor)
    recorded = provenance.get("variables")
    if not isinstance(recorded, Mapping):
        return
    for name in sorted({*map(str, recorded), *environ}):
        if not DECIDING.fullmatch(name) or HARMLESS.fullmatch(name):
            continue
        was, present = recorded.get(name), environ.get(name)
        if was != present:
            yield Change(name, None if was is None else str(was), present)


@contextmanager
def _findable(folder: Path) -> Iterator[None]:
    """Let modules in a folder be found, after everything that is installed."""
    before = list(sys.path)
    sys.path.append(str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
