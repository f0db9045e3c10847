"""The compiled kernel equals sorting; a missing or broken numba changes no result."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from aggregate_cases import every_statistic
from hypothesis import given, settings
from hypothesis import strategies as st

from rlexp.stats import bootstrap_indices, replicates
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

INSTALLED = importlib.util.find_spec("numba") is not None
needs_numba = pytest.mark.skipif(not INSTALLED, reason="numba, of rlexp[fast], is not installed")


@pytest.fixture(autouse=True)
def _clear_kernel_cache() -> Iterator[None]:
    """Clear the cached kernel, so that each test looks for numba again."""
    replicates.compiled.cache_clear()
    yield
    replicates.compiled.cache_clear()


def resampled(
    scores: TaskScores, sums: replicates.Sums | None, monkeypatch: pytest.MonkeyPatch
) -> list[float]:
    """Resampled interquartile means, computed by `sums` or by sorting."""
    monkeypatch.setattr(replicates, "kernel", lambda cells: sums)
    by_name = replicates.replicates(scores, every_statistic(), Resampling(repetitions=60))
    return [float(value) for name in ("iqm", "exact_iqm") for value in by_name[name]]


def tied_scores(sizes: tuple[int, ...]) -> TaskScores:
    """Scores with many ties within and across tasks."""
    generator = np.random.default_rng(len(sizes))
    return TaskScores.from_tasks([generator.integers(0, 4, size=size) for size in sizes])


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_summing_by_counts_equals_sorting(sizes: list[int]) -> None:
    """Summing by counts equals sorting to the last bit, with ties and on unequal tasks."""
    scores = tied_scores(tuple(sizes))
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = resampled(scores, None, monkeypatch)
        assert expected == resampled(scores, replicates.sum_middle_halves, monkeypatch)


@needs_numba
@pytest.mark.parametrize("sizes", [(5,), (6,) * 8, (3, 8, 1, 5), (97, 98, 99, 101, 103, 107)])
def test_compiling_changes_no_byte(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled and the NumPy version give the same bytes."""
    sums = replicates.compiled()
    assert sums is not None
    scores = TaskScores.from_tasks([np.random.default_rng(s).normal(size=s) for s in sizes])
    expected = resampled(scores, None, monkeypatch)
    assert expected == resampled(scores, sums, monkeypatch)


@needs_numba
@pytest.mark.parametrize("repetitions", [1, 7, 40_000])
def test_the_compiled_generator_gives_the_same_words(repetitions: int) -> None:
    """The compiled SFC64 draws the same runs as NumPy's, in every block."""
    sizes, resampling = (5, 6, 4), Resampling(seed=3, repetitions=repetitions)
    for block in bootstrap_indices.blocks(sum(sizes), resampling):
        expected = bootstrap_indices.draw(sizes, resampling, block).bits
        fill = replicates.compiled_words()
        actual = bootstrap_indices.draw(sizes, resampling, block, fill).bits
        assert expected.tobytes() == actual.tobytes()


def test_little_work_imports_no_compiler() -> None:
    """An interval of an ordinary experiment is computed without importing numba."""
    code = (
        "import sys\n"
        "from rlexp.stats.aggregate import interquartile_mean\n"
        "from rlexp.stats.bootstrap import interval\n"
        "from rlexp.stats.resampling import Resampling\n"
        "from rlexp.stats.task_scores import TaskScores\n"
        "before = {'numba', 'scipy'} & sys.modules.keys()\n"
        "scores = TaskScores.from_tasks([[1.0, 2.0, 4.0]] * 9)\n"
        "assert interval(scores, interquartile_mean, Resampling()).low is not None\n"
        "print(before, 'numba' in sys.modules)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "set() False\n" == process.stdout


@needs_numba
def test_much_work_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled version is used from a number of drawn runs on."""
    assert None is replicates.kernel(replicates.WORTH_COMPILING - 1)
    assert None is not replicates.kernel(replicates.WORTH_COMPILING)
    monkeypatch.setattr(replicates, "WORTH_COMPILING", 10)
    assert None is not replicates.kernel(10)


def test_without_numba_arrays_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numba, which is optional, there is no kernel and no error."""
    monkeypatch.setattr(replicates, "find_spec", lambda name: None)
    assert None is replicates.kernel(replicates.WORTH_COMPILING)


@pytest.mark.parametrize("error", [ImportError("numba needs an older NumPy"), SystemError("no")])
def test_a_numba_that_does_not_import_is_ignored(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If numba cannot be imported, as beside a NumPy that is too new, there is no kernel."""

    class RefusingFinder:
        def find_spec(self, name: str, *arguments: object) -> None:
            if name.partition(".")[0] == "numba":
                raise error

    for name in [name for name in sys.modules if name.partition(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [RefusingFinder(), *sys.meta_path])
    monkeypatch.setattr(replicates, "find_spec", lambda name: True)
    assert None is replicates.compiled()


@needs_numba
def test_without_a_cache_folder_the_kernel_is_compiled_each_time() -> None:
    """The kernel compiles without a cache folder, as in a read-only installation."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from rlexp.stats import replicates\n"
        "sums, signature = replicates.sum_middle_halves, replicates.SIGNATURE\n"
        "assert replicates._compiled(sums, signature, cache=True) is None\n"
        "print(replicates.compiled() is not None)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ("True\n", "") == (process.stdout, process.stderr)
