"""Units in which a training counts its steps: environment steps, unless a training script declares others."""

from collections.abc import Iterable, Mapping
from typing import Literal

from rlexp.protocol.identity import Plain

Unit = Literal["gradient_steps", "episodes", "tokens"]
"""A unit of `environment.unit` that is not environment steps."""
UNIT = "unit"
"""The setting of an environment; null means environment steps, so that no identity changes."""
ENVIRONMENT_STEPS = "environment_steps"


def unit_of(environment: Plain) -> str:
    """The unit of the steps of all runs with an environment, as `environment.unit` writes it.

    Args:
        environment: The settings of the environment.
    """
    # A damaged file may hold anything.
    unit = environment.get(UNIT) if isinstance(environment, Mapping) else None
    return unit if isinstance(unit, str) else ENVIRONMENT_STEPS


def unit_text(unit: str) -> str:
    """A unit in words (`gradient steps`)."""
    return unit.replace("_", " ")


def in_units(text: str, unit: str) -> str:
    """A text about environment steps as a text about another unit.

    Args:
        text: The text, in which `environment step` or `environment steps` is the unit.
        unit: The unit, as `environment.unit` writes it.
    """
    if unit == ENVIRONMENT_STEPS:
        return text
    several = unit_text(unit)
    singular = several.removesuffix("s")
    article = "an" if singular[0] in "aeiou" else "a"
    for words, said in (
        ("an environment step", f"{article} {singular}"),
        ("environment step", singular),
        ("Environment step", singular.capitalize()),
    ):
        # The plural of every unit ends with the same letter as that of environment steps.
        text = text.replace(words, said)
    return text


def differing_units(units: Iterable[tuple[str, str]]) -> str:
    """What is said of runs whose units differ; empty where all have the same.

    Args:
        units: A name and the unit of each.
    """
    first: dict[str, str] = {}
    for name, unit in units:
        first.setdefault(unit, name)
    return (
        " and ".join(f"in {unit_text(unit)} ({name})" for unit, name in first.items())
        if len(first) > 1
        else ""
    )
