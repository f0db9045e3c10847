"""Reads configurations from JSON documents and checks their values."""

import sys
from collections.abc import Mapping
from typing import Any

from rlexp.errors import ConfigError
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.measures import DeclaredMeasure
from rlexp.protocol.schema_1 import ConfigurationSchema1, named_configuration


def read_configuration(document: Mapping[str, Any], schema: int) -> Configuration:
    """The inverse of `Configuration.plain`.

    Args:
        document: The JSON object of a configuration.
        schema: Schema version of the file.

    Raises:
        KeyError: A field is missing.
        TypeError: A field has a wrong type.
        ValueError: A field has an invalid value.
    """
    _check_names(document["label"], document["task"])
    _check_parts(document)
    _check_reference(document["reference"])
    measures = document.get("measures", {})
    _check_measures(measures)
    kind = ConfigurationSchema1 if schema == ConfigurationSchema1.schema else Configuration
    parts = named_configuration(document) if kind is ConfigurationSchema1 else document
    return kind(
        label=document["label"],
        task=document["task"],
        agent=parts["agent"],
        algorithm=parts["algorithm"],
        environment=parts["environment"],
        reference=document["reference"],
        budget=Budget(**document["budget"]),
        compute=Compute(**document["compute"]),
        measures=measures,
        code=_code(document.get("code")),
        callback=_callback(document.get("callback")),
        replay=_plug_in("replay", document.get("replay")),
        dataset=_plug_in("dataset", document.get("dataset")),
    )


def _code(digest: object) -> str | None:
    if digest is not None and not isinstance(digest, str):
        raise TypeError(f"code={digest!r} must be a digest")
    return digest


def _callback(callbacks: object) -> Mapping[str, Any] | None:
    named = isinstance(callbacks, Mapping) and all(
        isinstance(part, Mapping) for part in callbacks.values()
    )
    if callbacks is not None and not named:
        raise TypeError(f"callback={callbacks!r} must be a mapping of callbacks by name")
    return callbacks if isinstance(callbacks, Mapping) else None


def _plug_in(group: str, part: object) -> Mapping[str, Any] | None:
    if part is not None and not isinstance(part, Mapping):
        raise TypeError(f"{group} must be a mapping")
    return part


def _check_names(*names: object) -> None:
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"{name!r} is not a name: names are non-empty printable text")


def _check_parts(document: Mapping[str, Any]) -> None:
    for part in ("agent", "algorithm", "environment"):
        if not isinstance(document[part], Mapping):
            raise TypeError(f"{part}={document[part]!r} must be a mapping of settings")


def _check_reference(reference: object) -> None:
    if not isinstance(reference, Mapping):
        raise TypeError(f"reference={reference!r} must be a mapping of reference scores")
    for key, value in reference.items():
        # Also false for NaN, and for integers that no float can hold.
        number = isinstance(value, int | float) and abs(value) <= sys.float_info.max
        if key != "source" and value is not None and not number:
            raise ValueError(f"reference.{key}={value!r} must be a finite number or null")


def _check_measures(measures: object) -> None:
    if not isinstance(measures, Mapping):
        raise TypeError(f"measures={measures!r} must be a mapping of declared measures")
    for name, declared in measures.items():
        try:
            DeclaredMeasure(**declared)
        except (ConfigError, TypeError) as error:
            raise ValueError(f"measures.{name} is no declaration: {error}") from error
