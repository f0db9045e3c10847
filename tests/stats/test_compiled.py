"""The compiled kernel gives what sorting gives, and what is missing or broken changes nothing."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from aggregate_cases import statistics
from hypothesis import given, settings
from hypothesis import strategies as st

from rlexp.stats import replicates
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

INSTALLED = importlib.util.find_spec("numba") is not None
needs_numba = pytest.mark.skipif(not INSTALLED, reason="numba, of rlexp[fast], is not installed")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """What is found once is kept; each test finds it anew."""
    replicates.compiled.cache_clear()
    yield
    replicates.compiled.cache_clear()


def resampled(
    scores: TaskScores, sums: replicates.Sums | None, monkeypatch: pytest.MonkeyPatch
) -> list[float]:
    """Resampled interquartile means, by these sums or by sorting."""
    monkeypatch.setattr(replicates, "kernel", lambda cells: sums)
    found = replicates.replicates(scores, statistics(), Resampling(repetitions=60))
    return [float(value) for value in found["iqm"]]


def tied(sizes: tuple[int, ...]) -> TaskScores:
    """Scores of which many are equal, within tasks and across."""
    generator = np.random.default_rng(len(sizes))
    return TaskScores.from_tasks([generator.integers(0, 4, size=size) for size in sizes])


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_counting_and_walking_is_sorting(sizes: list[int]) -> None:
    """To the last bit, also where scores are equal and tasks have different numbers of runs."""
    scores = tied(tuple(sizes))
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


def test_little_work_imports_no_compiler() -> None:
    """An interval of an ordinary experiment is there before numba would be imported."""
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "set() False\n" == done.stdout


@needs_numba
def test_much_work_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled version is used from a number of drawn runs on."""
    assert None is replicates.kernel(replicates.WORTH_COMPILING - 1)
    assert None is not replicates.kernel(replicates.WORTH_COMPILING)
    monkeypatch.setattr(replicates, "WORTH_COMPILING", 10)
    assert None is not replicates.kernel(10)


def test_without_numba_arrays_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra; nothing says a word when it is not there."""
    monkeypatch.setattr(replicates, "find_spec", lambda name: None)
    assert None is replicates.kernel(replicates.WORTH_COMPILING)


@pytest.mark.parametrize("error", [ImportError("numba needs an older NumPy"), SystemError("no")])
def test_a_numba_that_does_not_work_is_none(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba refuses to be imported beside a NumPy newer than it knows."""

    class Refusing:
        def find_spec(self, name: str, *rest: object) -> None:
            if name.partition(".")[0] == "numba":
                raise error

    for name in [name for name in sys.modules if name.partition(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    monkeypatch.setattr(replicates, "find_spec", lambda name: True)
    assert None is replicates.compiled()


@needs_numba
def test_without_a_folder_for_its_cache_it_is_compiled_each_time() -> None:
    """A read-only installation of a user without a home is as fast, after a moment."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from rlexp.stats import replicates\n"
        "assert replicates._compiled(cache=True) is None\n"
        "print(replicates.compiled() is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ("True\n", "") == (done.stdout, done.stderr)
