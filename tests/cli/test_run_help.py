"""The help of `rlexp run` shows the words that everybody needs, and where the others are."""

from pathlib import Path

import pytest
from command_line import give
from quick_parts import quick_parts

from rlexp.cli.train.run import WORDS
from rlexp.config.compose import compose
from rlexp.config.validate import validate

quick = pytest.fixture(autouse=True)(quick_parts)


def test_the_help_shows_ten_words_and_where_the_others_are(tmp_path: Path) -> None:
    """Each of the ten words stands on a line of the help, which then names the search."""
    lines = give(tmp_path, "run", "--help").splitlines()
    assert 10 == len(WORDS)
    for word, meaning in WORDS.items():
        assert 1 == sum(word in line and meaning in line for line in lines)
    text = "\n".join(lines)
    assert all(next_ in text for next_ in ("rlexp config search", "rlexp init --study"))


def test_the_words_of_the_help_are_valid_together(tmp_path: Path) -> None:
    """The ten words compose and are valid as one command."""
    (composed,) = compose(list(WORDS), tmp_path)
    settings, _ = validate(composed.plain)
    assert ("first", 20000) == (settings.experiment, settings.budget.steps)
