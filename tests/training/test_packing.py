"""Trees of values and arrays as bytes."""

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rlexp.training.learner_state import pack, unpack

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_]),
        arrays.array_shapes(min_dims=0, max_dims=3, max_side=3),
    )
)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def comparable(tree: Any) -> Any:
    """A comparable tree: arrays as type, shape and bytes."""
    if isinstance(tree, np.ndarray):
        return ("array", str(tree.dtype), tree.shape, tree.tobytes())
    if isinstance(tree, dict):
        return {key: comparable(value) for key, value in tree.items()}
    return [comparable(value) for value in tree] if isinstance(tree, list) else tree


@given(trees)
def test_a_tree_comes_back(tree: Any) -> None:
    """Integers of any size, floats and arrays survive packing to the last bit."""
    assert comparable(tree) == comparable(unpack(pack(tree)))


def test_numbers_that_json_lacks_come_back() -> None:
    """NaN and infinity survive packing."""
    restored = unpack(pack([math.inf, math.nan]))
    assert (math.inf, True) == (restored[0], math.isnan(restored[1]))


@pytest.mark.parametrize("value", [object(), {1: 2}, {"__array__": "0"}, np.array([object()])])
def test_what_would_need_pickle_is_refused(value: Any) -> None:
    """Objects, keys that are not strings, and arrays of objects cannot be packed."""
    with pytest.raises(TypeError):
        pack(value)


def test_a_file_with_a_pickle_is_refused() -> None:
    """An array of objects in a file is not read, so that no code in it is executed."""
    buffer = io.BytesIO()
    np.savez(buffer, tree=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(buffer.getvalue())


@given(st.binary(max_size=200), st.integers(0, 10_000))
def test_damage_is_an_error_of_one_kind(noise: bytes, cut: int) -> None:
    """Random bytes and truncated files raise ValueError."""
    packed = pack({"a": np.arange(50), "b": 1})
    for content in (noise, packed[: cut % len(packed)]):
        with pytest.raises(ValueError):  # noqa: PT011
            unpack(content)
