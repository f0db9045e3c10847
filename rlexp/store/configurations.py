"""Configurations as JSON files hold them, checked as they are read."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.schema_1 import FirstConfiguration, named_configuration


def read_configuration(plain: Mapping[str, Any], schema: int) -> Configuration:
    """The inverse of `Configuration.plain`.

    Args:
        plain: What a file holds.
        schema: Of the file.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is of another kind.
        ValueError: A field makes no sense.
    """
    _check_words(plain["label"], plain["task"])
    _check_reference(plain["reference"])
    kind = FirstConfiguration if schema == FirstConfiguration.schema else Configuration
    parts = named_configuration(plain) if kind is FirstConfiguration else plain
    return kind(
        label=plain["label"],
        task=plain["task"],
        agent=parts["agent"],
        algorithm=parts["algorithm"],
        environment=parts["environment"],
        reference=plain["reference"],
        budget=Budget(**plain["budget"]),
        compute=Compute(**plain["compute"]),
    )


def _check_words(*words: Any) -> None:
    for word in words:
        if not isinstance(word, str) or not word.strip() or not word.isprintable():
            raise ValueError(f"{word!r} is no name")


def _check_reference(reference: Any) -> None:
    if not isinstance(reference, Mapping):
        raise TypeError(f"reference={reference!r} holds no known scores")
    for key, value in reference.items():
        number = isinstance(value, int | float) and isfinite(value)
        if key != "source" and value is not None and not number:
            raise ValueError(f"reference.{key}={value!r} is no number")
