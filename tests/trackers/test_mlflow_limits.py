"""All keys, values and requests that are written to MLflow respect its limits."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracked_samples import START_TIME

from rlexp.trackers import MetricRow
from rlexp.trackers.mlflow_limits import (
    METRICS,
    legal_key,
    metric_batches,
    parameters_of,
    readable,
    tags_of,
)
from rlexp.trackers.parameters import parameters

NAMES = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="ab/.:* é\n", max_size=12),
    st.text(alphabet="é/", min_size=240, max_size=260),
)


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Skip these tests without MLflow, whose own checks they call."""
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
    """A cut value is marked, and differs from a value with another cut part."""
    first, second = (readable("x" * 10_000 + end, 6000) for end in "ab")
    assert (len(first), len(second)) == (6000, 6000)
    assert "… sha256:" in first
    assert first != second
    assert readable("short", 6000) == "short"


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_values_can_be_stored(text: str) -> None:
    """Lone surrogates and NUL are replaced, because databases refuse them."""
    stored = readable(text, 6000)
    assert stored.encode().decode() == stored
    assert "\x00" not in stored


def test_parameters_are_used_values_by_dotted_keys() -> None:
    """Texts stay texts, numbers are written as JSON; null, false, empty and classes are absent."""
    configuration = {
        "a": {"b": 1e-3, "c": "word", "_target_": "x.Y", "use_sde": False, "zero": 0.0},
        "algorithm": {"plug_in": {"group": "algorithm", "name": "ppo", "version": 1}},
        "d": [64, None],
        "e": {},
        "seed": 3,
    }
    assert parameters_of(parameters(configuration)) == [
        ("algorithm", "ppo"),
        ("a.b", "0.001"),
        ("a.c", "word"),
        ("a.zero", "0.0"),
        ("d.0", "64"),
    ]


def test_unknown_tags_are_left_out() -> None:
    """A value of None gives no tag."""
    assert tags_of({"trial": None, "seed": 0}) == [("seed", "0")]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2500), max_size=8))
def test_rows_in_requests(sizes: list[int]) -> None:
    """Requests contain every value once, in order and within limits, and name complete rows."""
    rows = [
        MetricRow(
            step=n,
            time=START_TIME,
            metrics={f"{'ü' * (i % 230)}{i}": float(i) for i in range(size)},
        )
        for n, size in enumerate(sizes)
    ]
    sent: list[tuple[int, float]] = []
    last_row = -1
    for portion in metric_batches(rows):
        sent += [(m.step, m.value) for m in portion.metrics]
        content = [[m.key, m.value, m.time, m.step, " " * 60] for m in portion.metrics]
        assert len(portion.metrics) <= METRICS
        assert len(json.dumps(content)) < 1_000_000
        last_row = last_row if portion.step is None else portion.step
        complete = [(r.step, v) for r in rows[: last_row + 1] for v in r.metrics.values()]
        assert sent[: len(complete)] == complete
    assert sent == [(row.step, value) for row in rows for value in row.metrics.values()]
    assert last_row == len(rows) - 1
