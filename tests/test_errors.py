"""The errors that users see: one root, known exit codes, a hint where a word is near."""

import inspect

import pytest

from rlexp import errors
from rlexp.errors import (
    ConfigError,
    EnvironmentFault,
    ExecutorError,
    ProtocolError,
    RecordError,
    RlexpError,
    did_you_mean,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (RlexpError, 2),
        (ConfigError, 2),
        (ProtocolError, 2),
        (RecordError, 2),
        (EnvironmentFault, 1),
        (ExecutorError, 70),
    ],
)
def test_an_error_knows_its_exit_code(kind: type[RlexpError], code: int) -> None:
    """Bad input is 2, a run that failed is 1, a broken machine is 70."""
    assert code == kind("…").exit_code


def test_every_error_has_the_one_root() -> None:
    """What the command line catches is all there is."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    own = [kind for kind in kinds if kind.__module__ == errors.__name__]
    assert [] == [kind for kind in own if not issubclass(kind, RlexpError)]


@pytest.mark.parametrize("kind", [ConfigError, ProtocolError])
def test_errors_of_values_are_collected_by_validation(kind: type[RlexpError]) -> None:
    """Pydantic collects a ValueError with the other mistakes; anything else would end it."""
    assert issubclass(kind, ValueError)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("algoritm", "; did you mean 'algorithm'?"),
        ("algorithm", "; did you mean 'algorithm'?"),
        ("agnt", "; did you mean 'agent'?"),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_a_near_word_is_suggested(word: str, expected: str) -> None:
    """A typing error is answered with the word that was meant, nonsense with nothing."""
    assert expected == did_you_mean(word, ["agent", "algorithm", "environment"])


def test_without_words_there_is_nothing_to_suggest() -> None:
    """An empty group has no near option."""
    assert "" == did_you_mean("ppo", iter(()))
