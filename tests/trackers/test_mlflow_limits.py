"""Everything written to MLflow respects its limits."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracked_samples import BEGUN

from rlexp.trackers import MetricRow
from rlexp.trackers.mlflow_limits import (
    METRICS,
    legal_key,
    metric_batches,
    parameters_of,
    readable,
    tags_of,
)

NAMES = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="ab/.:* é\n", max_size=12),
    st.text(alphabet="é/", min_size=240, max_size=260),
)


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """These tests ask MLflow what it takes."""
    pytest.importorskip("mlflow")


@given(NAMES)
@example("..0")
def test_keys_are_legal(name: str) -> None:
    """Any name becomes a legal key, and a legal name stays unchanged."""
    from mlflow.utils.validation import _validate_metric, _validate_param, _validate_tag_name

    key = legal_key(name)
    _validate_tag_name(key)
    assert _validate_param(key, "1").key == key
    _validate_metric(key, 1.0, 0, 0)
    assert legal_key(key) == key


@given(st.lists(NAMES, min_size=2, max_size=6, unique=True))
def test_keys_stay_apart(names: list[str]) -> None:
    """Two different names have different keys."""
    assert len({legal_key(name) for name in names}) == len(names)


def test_long_values_stay_apart() -> None:
    """A cut value is marked, and differs from one that differs after the cut."""
    one, other = (readable("x" * 10_000 + end, 6000) for end in "ab")
    assert (len(one), len(other)) == (6000, 6000)
    assert "… sha256:" in one
    assert one != other
    assert readable("short", 6000) == "short"


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_values_can_be_stored(text: str) -> None:
    """No lone surrogate and no NUL remains, which databases refuse."""
    stored = readable(text, 6000)
    assert stored.encode().decode() == stored
    assert "\x00" not in stored


def test_parameters_are_values_by_dotted_keys() -> None:
    """Texts stay texts, and numbers are written as JSON."""
    told = parameters_of({"a": {"b": 1e-3, "c": "word"}, "d": [64, None], "e": {}})
    assert told == [("a.b", "0.001"), ("a.c", "word"), ("d.0", "64"), ("d.1", "null"), ("e", "{}")]


def test_unknown_tags_are_left_out() -> None:
    """A value of None gives no tag."""
    assert tags_of({"trial": None, "seed": 0}) == [("seed", "0")]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2500), max_size=8))
def test_rows_in_requests(sizes: list[int]) -> None:
    """Requests have every value once, in order and within limits, and name the complete rows."""
    rows = [
        MetricRow(
            step=n, time=BEGUN, metrics={f"{'ü' * (i % 230)}{i}": float(i) for i in range(size)}
        )
        for n, size in enumerate(sizes)
    ]
    told: list[tuple[int, float]] = []
    whole = -1
    for portion in metric_batches(rows):
        told += [(m.step, m.value) for m in portion.metrics]
        content = [[m.key, m.value, m.time, m.step, " " * 60] for m in portion.metrics]
        assert len(portion.metrics) <= METRICS
        assert len(json.dumps(content)) < 1_000_000
        whole = whole if portion.step is None else portion.step
        complete = [(r.step, v) for r in rows[: whole + 1] for v in r.metrics.values()]
        assert told[: len(complete)] == complete
    assert told == [(row.step, value) for row in rows for value in row.metrics.values()]
    assert whole == len(rows) - 1
