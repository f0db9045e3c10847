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
    """Bad input ends with 2, a failed run with 1, and an executor that cannot start with 70."""
    assert code == kind("…").exit_code


def test_every_error_has_the_same_base_class() -> None:
    """The command line catches every error class of rlexp."""
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    error_classes = [kind for kind in classes if kind.__module__ == errors.__name__]
    assert [] == [kind for kind in error_classes if not issubclass(kind, RlexpError)]


@pytest.mark.parametrize("kind", [ConfigError, ProtocolError])
def test_errors_of_values_are_collected_by_validation(kind: type[RlexpError]) -> None:
    """Errors of values are ValueErrors, so Pydantic collects them instead of stopping at the first."""
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
    """A group without names gives no suggestion."""
    assert "" == did_you_mean("ppo", iter(()))
