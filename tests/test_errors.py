"""Error classes: one base class, fixed exit codes, and suggestions of near names."""

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
    """Bad input is 2, a failed run is 1, an executor that cannot start is 70."""
    assert code == kind("…").exit_code


def test_every_error_has_the_same_base_class() -> None:
    """The command line catches every error class of rlexp."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    own = [kind for kind in kinds if kind.__module__ == errors.__name__]
    assert [] == [kind for kind in own if not issubclass(kind, RlexpError)]


@pytest.mark.parametrize("kind", [ConfigError, ProtocolError])
def test_errors_of_values_are_collected_by_validation(kind: type[RlexpError]) -> None:
    """Pydantic collects a ValueError with other mistakes; any other error would stop it."""
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
def test_a_near_name_is_suggested(word: str, expected: str) -> None:
    """A typing error gives a suggestion, and nonsense gives none."""
    assert expected == did_you_mean(word, ["agent", "algorithm", "environment"])


def test_an_empty_group_gives_no_suggestion() -> None:
    """Without allowed names there is no suggestion."""
    assert "" == did_you_mean("ppo", iter(()))
