"""Changes the budget and the compute settings of a configuration that a record defines."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rlexp.config.validate import ValidatedSettings
from rlexp.protocol.budget import TENTH, evaluation_interval
from rlexp.protocol.experiment import Configuration

BUDGET_AND_COMPUTE = ("budget", "compute")
"""Sections of a configuration that a command may change without composing it again."""


def with_changed_budget(
    configuration: Configuration,
    root: ValidatedSettings,
    overrides: Sequence[str],
    keys: Sequence[str],
) -> Configuration:
    """The configuration with the overridden fields of its budget and its compute.

    Args:
        configuration: The configuration.
        root: The settings that the overrides give, with defaults for all others.
        overrides: The overrides.
        keys: The key of each override.
    """
    parts: dict[str, Any] = {}
    for name in BUDGET_AND_COMPUTE:
        overridden = [key.partition(".")[2] for key in keys if key.startswith(f"{name}.")]
        changes = {key: getattr(getattr(root, name), key) for key in overridden}
        if name == "budget" and f"budget.evaluation_every={TENTH}" in overrides:
            # The override was resolved with the budget of the defaults, which the configuration need
            # not have.
            steps = changes.get("steps", configuration.budget.steps)
            changes["evaluation_every"] = evaluation_interval(TENTH, steps)
        parts[name] = replace(getattr(configuration, name), **changes)
    return replace(configuration, **parts)
