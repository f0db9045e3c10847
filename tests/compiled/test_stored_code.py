"""Compiled code that is found without tracing is that of the same program, and never of another one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlexp.algorithms.compiled import stored_code
from rlexp.algorithms.compiled.stored_code import StoredFunction, is_storable
from rlexp.environments.classic_control_twins.cart_pole import CartPoleTwin

VALUES = np.arange(5, dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for compiled code."""
    monkeypatch.setenv(stored_code.FOLDER, str(tmp_path))
    return tmp_path


class Traced:
    """A function that counts how often it is traced."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, values: Any) -> Any:
        """Return a pair of arrays."""
        self.count += 1
        return jnp.sin(values) * 2, values.sum()

    def stored(self, settings: object = "settings") -> StoredFunction:
        """The function in a process that has compiled nothing."""
        return StoredFunction(jax.jit(self), settings, lambda _: (0, 0))


def bits(results: Any) -> list[bytes]:
    """The bytes of every array."""
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(results)]


def test_a_later_process_traces_nothing() -> None:
    """The second call comes from the folder, with the same bits."""
    first, second = Traced(), Traced()
    expected = bits(first.stored()(VALUES))
    assert expected == bits(second.stored()(VALUES))
    assert (1, 0) == (first.count, second.count)


def test_another_program_is_compiled_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other settings, other shapes, other variables and other sources do not use the code."""
    Traced().stored()(VALUES)
    settings, shapes, variables, sources = (Traced() for _ in range(4))
    settings.stored("others")(VALUES)
    shapes.stored()(VALUES[:3])
    for change, traced in (("variables", variables), ("sources", sources)):
        stored_code._surroundings.cache_clear()
        with monkeypatch.context() as patch:
            if change == "variables":
                patch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
            else:
                patch.setattr(stored_code, "SOURCES", ("algorithms",))
            traced.stored()(VALUES)
        stored_code._surroundings.cache_clear()
    assert [1] * 4 == [traced.count for traced in (settings, shapes, variables, sources)]


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 5000])
def test_a_damaged_file_is_compiled_again(damage: bytes, folder: Path) -> None:
    """A file that was cut or changed is not executed, and is replaced."""
    expected = bits(Traced().stored()(VALUES))
    (file,) = folder.glob("*.program")
    whole = file.read_bytes()
    file.write_bytes(damage)
    again = Traced()
    assert expected == bits(again.stored()(VALUES))
    assert 1 == again.count
    assert len(whole) == len(file.read_bytes())


def test_a_full_disk_loses_nothing(folder: Path) -> None:
    """Where the folder cannot be written, the function is compiled and called all the same."""
    blocked = folder / "file"
    blocked.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(stored_code.FOLDER, str(blocked))
        assert 2 == len(bits(Traced().stored()(VALUES)))


def test_a_twin_of_the_user_is_left_to_the_cache_of_jax() -> None:
    """Only twins of rlexp depend on files that are part of the digest."""

    class Mine(CartPoleTwin):
        pass

    assert is_storable(CartPoleTwin())
    assert not is_storable(Mine())


def test_importing_jax_starts_no_thread(tmp_path: Path) -> None:
    """The server may fork after it has imported JAX, because it still has one thread."""
    code = (
        "import os, sys, pathlib, torch;"
        "from rlexp.algorithms.compiled.runtime import import_jax;"
        f"import_jax(pathlib.Path({str(tmp_path)!r}));"
        "print('jax' in sys.modules, len(os.listdir('/proc/self/task')))"
    )
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **threads},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["True", "1"]
