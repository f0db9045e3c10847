"""The head of a page: YAML that no name can leave, and that every reader takes alike."""

import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from quick_parts import quick_yaml

from rlexp.config.front_matter import front_matter

sys.path.append(str(Path(__file__).parents[1] / "faults"))
from hostile_strings import HOSTILE

quick = pytest.fixture(autouse=True)(quick_yaml)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(
    st.dictionaries(st.sampled_from(("tags", "name")), st.lists(TEXTS | st.floats() | st.none()))
)
def test_a_head_reads_as_it_was_meant(value: dict[str, list[str | float | None]]) -> None:
    """In ASCII, between two lines of dashes, of which the texts hold none."""
    text = front_matter(value)
    assert text.isascii()
    begin, body, end = text.split("---\n")
    assert ("", "") == (begin, end)
    assert repr(value) == repr(yaml.safe_load(body))


@pytest.mark.parametrize("text", ["no", "1e3", "0o17", "2001-01-01", "null", "~", *HOSTILE])
def test_a_text_stands_in_quotes(text: str) -> None:
    """YAML 1.2 reads some numbers that 1.1 takes for texts, and the other way round."""
    assert front_matter({"name": text}).startswith('---\n"name": "')
