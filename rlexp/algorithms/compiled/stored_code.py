"""Keeps the compiled code of programs in the user's cache, with which a later process begins at once.

JAX's persistent cache finds code by the lowered program, so that each process traces and lowers it
again. That takes longer than loading the code. Here the code is found by what the program is made
of: its settings, the shapes of its arguments, the source files of rlexp, the versions of Python and
JAX, and the variables that set up JAX. A twin of the user may import any file, so programs
with such a twin are left to JAX's cache.

Loading code executes what the folder holds: only the user may write to it, as to the user's other caches.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import jax
from jax.experimental.compilation_cache import compilation_cache
from jax.experimental.serialize_executable import deserialize_and_load, serialize

FOLDER = "JAX_COMPILATION_CACHE_DIR"
"""The variable that names the folder, which `runtime.set_up` sets."""
SUFFIX = ".program"
TWINS = "rlexp.environments.classic_control_twins."
"""The package whose twins depend on files of rlexp alone."""
SOURCES = ("algorithms/compiled", "environments/classic_control_twins")
"""Folders of rlexp whose files shape a program."""
PACKAGES = ("jax", "jaxlib", "numpy")
DIGEST = 32
"""Bytes of the digest at the beginning of a file."""

Compiled = Callable[..., Any]


class StoredFunction:
    """A function that is compiled once for each user and each shape of its arguments."""

    def __init__(self, function: Any, settings: object, results: Callable[..., Any]) -> None:
        """Keep the code of a function.

        Args:
            function: What `jax.jit` returned.
            settings: A value whose text tells every setting that shapes the function.
            results: Returns a tree of the shape of the results, for the same arguments.
        """
        self._function, self._results = function, results
        self._settings = settings
        self._compiled: dict[Any, Compiled] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the function with arrays of any shape."""
        leaves, tree = jax.tree.flatten(arguments)
        # Not the text of a type, which is slow to make.
        shapes = tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if shapes not in self._compiled:
            self._compiled[shapes] = self._load_or_compile(arguments, shapes)
        return self._compiled[shapes](*arguments)

    def _load_or_compile(self, arguments: tuple[Any, ...], shapes: object) -> Compiled:
        folder = os.environ.get(FOLDER)
        if not folder:
            unkept: Compiled = self._function.lower(*arguments).compile()
            return unkept
        file = Path(folder) / f"{_digest(self._settings, shapes)}{SUFFIX}"
        inputs = jax.tree.structure((arguments, {}))
        outputs = jax.tree.structure(self._results(*arguments))
        # A file of another version, or a damaged one, may raise any error: compile again.
        with suppress(Exception):
            if (content := _read(file)) is not None:
                loaded: Compiled = deserialize_and_load(content, inputs, outputs)
                return loaded
        lowered = self._function.lower(*arguments)
        with _without_cache():
            # Code that came from JAX's cache cannot be stored again.
            compiled: Compiled = lowered.compile()
        with suppress(Exception):
            content, *structures = serialize(compiled)
            if structures == [inputs, outputs]:
                _write(file, content)
        return compiled


def is_storable(twin: object) -> bool:
    """Whether the files of rlexp tell everything about a twin."""
    return type(twin).__module__.startswith(TWINS)


@contextmanager
def _without_cache() -> Iterator[None]:
    """Compile without JAX's persistent cache."""
    name = "jax_enable_compilation_cache"
    before = getattr(jax.config, name)
    jax.config.update(name, val=False)
    # JAX asks once only whether the cache is used.
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update(name, before)
        compilation_cache.reset_cache()


def _digest(*parts: object) -> str:
    """The digest of settings and shapes, and of all else that decides the code."""
    return sha256(repr((*parts, _surroundings())).encode()).hexdigest()


@lru_cache(1)
def _surroundings() -> tuple[object, ...]:
    root = Path(__file__).parents[2]
    files = sorted(file for folder in SOURCES for file in (root / folder).rglob("*.py"))
    sources = tuple(sha256(file.read_bytes()).hexdigest() for file in files)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("JAX_", "XLA_")) and name != FOLDER
    }
    versions = tuple(version(name) for name in PACKAGES)
    return sources, sorted(variables.items()), versions, sys.version, platform.machine()


def _read(file: Path) -> bytes | None:
    """The code in a file, or None where it is missing or damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    code = content[DIGEST:]
    return code if sha256(code).digest() == content[:DIGEST] else None


def _write(file: Path, code: bytes) -> None:
    """Write code under a temporary name first, so that no reader finds a part of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{uuid4().hex[:8]}{SUFFIX}.part")
    try:
        temporary.write_bytes(sha256(code).digest() + code)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
