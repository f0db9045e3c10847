"""Texts about environment steps as texts about the unit in which runs count their steps."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from rlexp.protocol.units import ENVIRONMENT_STEPS, in_units

Part = TypeVar("Part")


def naming_unit(part: Part, unit: str) -> Part:
    """A part of a report in which tables, axes and sentences name a unit.

    Args:
        part: A document, blocks or a text, which name environment steps.
        unit: The unit of all runs, as `environment.unit` writes it.
    """
    return part if unit == ENVIRONMENT_STEPS else cast("Part", _named(part, unit))


def _named(part: Any, unit: str) -> Any:
    if isinstance(part, str):
        # A member of an enumeration of texts stays what it is.
        return in_units(part, unit) if type(part) is str else part
    if isinstance(part, tuple):
        return tuple(_named(each, unit) for each in part)
    if isinstance(part, Mapping):
        return {_named(key, unit): _named(value, unit) for key, value in part.items()}
    if is_dataclass(part) and not isinstance(part, type):
        initial = [field.name for field in fields(part) if field.init]
        return replace(part, **{name: _named(getattr(part, name), unit) for name in initial})
    return part
