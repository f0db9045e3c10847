"""Front matter: YAML that no text can escape and that every YAML version reads in the same way."""

import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from quick_parts import quick_yaml

from rlexp.config.yaml_text import front_matter

sys.path.append(str(Path(__file__).parents[1] / "faults"))
from hostile_strings import HOSTILE

quick = pytest.fixture(autouse=True)(quick_yaml)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(
    st.dictionaries(st.sampled_from(("tags", "name")), st.lists(TEXTS | st.floats() | st.none()))
)
def test_front_matter_can_be_read_back(value: dict[str, list[str | float | None]]) -> None:
    """YAML reads the front matter back as the values that were written."""
    text = front_matter(value)
    assert text.isascii()
    begin, body, end = text.split("---\n")
    assert ("", "") == (begin, end)
    assert repr(value) == repr(yaml.safe_load(body))


@pytest.mark.parametrize("text", ["no", "1e3", "0o17", "2001-01-01", "null", "~", *HOSTILE])
def test_texts_are_quoted(text: str) -> None:
    """Texts that YAML 1.1 or 1.2 would read as another type are quoted."""
    assert front_matter({"name": text}).startswith('---\n"name": "')
