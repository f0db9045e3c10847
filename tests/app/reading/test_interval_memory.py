"""Intervals that are kept for later commands are those that would be computed again."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlexp.app.reading import interval_memory
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.interval_memory import IntervalMemory
from rlexp.metrics import estimate
from rlexp.metrics.estimate import Estimate, Estimator
from rlexp.metrics.iqm import InterquartileMean
from rlexp.stats.aggregate import Statistic, mean
from rlexp.stats.bootstrap import intervals
from rlexp.stats.interval import Interval
from rlexp.stats.pairs import power
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.store.layout import ExperimentPaths

SCORES = np.random.default_rng(5).normal(100.0, 7.0, 20)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The numbers of scores whose intervals were computed; few scores are worth keeping."""
    computed: list[int] = []

    def counting(
        scores: TaskScores, metrics: Mapping[str, Statistic], *given: Any, **named: Any
    ) -> dict[str, Interval]:
        computed.append(scores.n)
        return intervals(scores, metrics, *given, **named)

    monkeypatch.setattr(estimate, "intervals", counting)
    monkeypatch.setattr(estimate, "WORTH_KEEPING", 0)
    monkeypatch.setattr(interval_memory, "SETTLED", -3600.0)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return computed


def estimated(
    tmp_path: Path,
    scores: np.ndarray[Any, Any] = SCORES,
    metric: Statistic | None = None,
    resampling: Resampling | None = None,
) -> Estimate:
    """The estimate of a new command."""
    memory = IntervalMemory.of(ExperimentPaths(tmp_path / "runs" / "alpha"))
    estimator = Estimator(resampling=resampling or Resampling(repetitions=2_000), kept=memory)
    result = estimator.estimate(TaskScores.from_tasks([scores]), metric or InterquartileMean())
    memory.save()
    return result


def file_of(tmp_path: Path) -> Path:
    """The file of the memory."""
    (file,) = (tmp_path / "home" / "rlexp" / "intervals").iterdir()
    return file


def test_a_kept_interval_is_that_of_a_computation(tmp_path: Path, counted: list[int]) -> None:
    """The second command computes nothing, and gives the same estimate as one without a memory."""
    expected = Estimator(resampling=Resampling(repetitions=2_000)).estimate(
        TaskScores.from_tasks([SCORES]), InterquartileMean()
    )
    counted.clear()
    assert [estimated(tmp_path), estimated(tmp_path)] == [expected] * 2
    assert counted == [20]


def test_another_question_is_computed(tmp_path: Path, counted: list[int]) -> None:
    """Another score, metric or seed gets no kept interval, and loses none."""
    changed = SCORES.copy()
    changed[3] = np.nextafter(changed[3], np.inf)
    estimated(tmp_path)
    estimated(tmp_path, changed)
    estimated(tmp_path, metric=mean)
    estimated(tmp_path, resampling=Resampling(repetitions=2_000, seed=1))
    assert len(counted) == 4
    estimated(tmp_path)
    assert len(counted) == 4


def test_a_metric_of_the_user_is_computed(tmp_path: Path, counted: list[int]) -> None:
    """Intervals of a metric whose code is not that of rlexp are not kept."""

    def largest(scores: TaskScores) -> Any:
        return scores.values.max(axis=-1)

    estimated(tmp_path, metric=largest)
    estimated(tmp_path, metric=largest)
    assert len(counted) == 2


@pytest.mark.parametrize("content", [b"", b"garbage", b"0" * 64 + b"\n{}"])
def test_a_damaged_file_is_ignored(tmp_path: Path, counted: list[int], content: bytes) -> None:
    """A file that is damaged gives no interval, and is written again."""
    expected = estimated(tmp_path)
    file_of(tmp_path).write_bytes(content)
    assert [estimated(tmp_path), estimated(tmp_path)] == [expected] * 2
    assert len(counted) == 2


def test_intervals_of_other_code_are_computed_again(
    tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intervals that other code has computed are not used."""
    estimated(tmp_path)
    monkeypatch.setattr(interval_memory, "stamp_of_tree", lambda *_, **__: "other code")
    estimated(tmp_path)
    assert len(counted) == 2


def test_intervals_are_private_and_a_folder_without_rights_is_no_error(
    tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the user can read the folder; where no file can be written, nothing is kept."""
    expected = estimated(tmp_path)
    assert file_of(tmp_path).parent.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("RLEXP_HOME", os.devnull)
    assert estimated(tmp_path) == expected


def test_a_kept_effect_is_that_of_a_computation(
    tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a comparison could find is the same from the second command on, which simulates nothing."""
    asked: list[int] = []
    simulated = power.detectable_effect

    def counting(plan: power.ComparisonPlan, n: int, chance: float = 0.8) -> float | None:
        asked.append(n)
        return simulated(plan, n, chance)

    monkeypatch.setattr(power, "detectable_effect", counting)

    def found(scores: np.ndarray[Any, Any], labels: int = 2, chance: float = 0.8) -> object:
        memory = IntervalMemory.of(ExperimentPaths(tmp_path / "runs" / "alpha"))
        leading = HeadlineAggregate(power=chance)
        alone = leading.detectable(scores.tolist(), leading.plan(labels), {})
        asked.clear()
        kept = leading.keeping(memory).detectable(scores.tolist(), leading.plan(labels), {})
        memory.save()
        assert kept == alone
        return kept

    first = found(SCORES)
    assert asked == [20, 40]
    assert first == found(SCORES)
    assert asked == []
    # Nothing depends on the scores but their spread and number.
    found(SCORES[:19])
    assert asked == [19, 38]
    assert found(SCORES, labels=3) != first
    assert asked == [20, 40]
    assert found(SCORES, chance=0.9) != first
    assert asked == [20, 40]


def float_of(value: float | None) -> float | None:
    """The value."""
    return value


def test_a_kept_effect_of_another_kind_is_computed(tmp_path: Path, counted: list[int]) -> None:
    """A text in the place of a number in the file is ignored, and "nothing" is kept."""
    paths = ExperimentPaths(tmp_path / "runs" / "alpha")
    text: Any = "much"
    cases: list[tuple[float | None, float | None]] = [(text, 0.5), (None, None), (0.25, 0.25)]
    for kept, expected in cases:
        memory = IntervalMemory.of(paths)
        memory.recall_number(b"how much", partial(float_of, kept))
        memory.save()
        assert IntervalMemory.of(paths).recall_number(b"how much", lambda: 0.5) == expected
        file_of(tmp_path).unlink()
