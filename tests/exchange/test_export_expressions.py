"""Values written as Python source: the content of records stays data."""

import ast
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.errors import RecordError
from rlexp.exchange.exporters.script import Expression, expression, lines_of, render_requirements

sys.path.append(str(Path(__file__).parents[1] / "faults"))
from hostile_strings import HOSTILE

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(HOSTILE)
)
JSON_VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(JSON_VALUES)
def test_plain_data_comes_back_from_its_source(value: Any) -> None:
    """The source is an ASCII literal that evaluates to the value, for any text."""
    source = expression(value)
    assert source.isascii()
    assert "\n" not in source
    assert value == ast.literal_eval(source)
    module = ast.parse("\n".join(lines_of("NAME", value)))
    assert [ast.Assign] == [type(node) for node in module.body]


def test_a_tuple_of_one_stays_a_tuple() -> None:
    """A tuple with one element is written with its comma."""
    assert "(1,)" == expression((1,))


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1, 2}, b"bytes"])
def test_other_objects_have_no_source(value: Any) -> None:
    """Objects that are not JSON values are refused, never written by their `repr`."""
    with pytest.raises(RecordError, match="cannot be written"):
        expression([value])


def test_only_expression_objects_are_code() -> None:
    """A text that looks like an expression is written as a quoted text."""
    assert "{'a': nn.Tanh, 'b': 'nn.Tanh'}" == expression(
        {"a": Expression("nn.Tanh"), "b": "nn.Tanh"}
    )


def test_requirements_hold_versions_only() -> None:
    """A record cannot add an option or an address to the requirements."""
    recorded = {
        "torch": "2.8.0+cpu",
        "stable_baselines3": "2.9.2",
        "numpy": "2\n--index-url https://example.org",
        "gymnasium": "@ https://example.org/x.whl",
        "pandas": 3,
    }
    names = {"torch", "stable-baselines3", "numpy", "gymnasium", "pandas", "x; y", "-r x"}
    expected = ["gymnasium", "numpy", "pandas", "stable-baselines3==2.9.2", "torch==2.8.0"]
    assert expected == render_requirements(names, recorded, "3.11; x").splitlines()
    assert "# Python 3.11.7\n" == render_requirements((), {}, "3.11.7")
