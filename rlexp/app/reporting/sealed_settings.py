"""Judges a registered experiment by the settings that its protocol sealed."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from typing import Any

from rlexp.config.report_settings import ReportParts, with_cut
from rlexp.config.validate import validate_settings
from rlexp.records.metric_definition import CLASS, definition_of_metric
from rlexp.records.registration import DECIDING
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.evidence.runs import Evidence


def with_sealed_settings(parts: ReportParts, evidence: Evidence) -> ReportParts:
    """The settings of a report, with those that the protocol of its only experiment sealed.

    What the command itself names stays as it is: the report then says that it deviates. A sealed
    metric that the workspace has no longer is left out, with the same consequence.

    Raises:
        ConfigError: A sealed setting is out of range.
    """
    registered = evidence.protocols.experiments
    if len(registered) != 1 or len(evidence.experiments) != 1:
        return parts
    sealed = registered[0].registration.study.settings
    kept = {key: sealed[key] for key in DECIDING if key in sealed and key not in parts.chosen}
    settings = validate_settings(ReportSettings, {**asdict(parts.settings), **kept})
    first = (
        [] if "metric" in parts.chosen else [m for m in sealed["metrics"] if m in parts.metrics]
    )
    names = dict.fromkeys((*first, *parts.metrics))
    definitions = registered[0].registration.study.metric_definitions
    metrics = {name: _sealed_metric(name, definitions, parts) for name in names}
    return replace(
        parts,
        settings=settings,
        metrics={name: with_cut(metric, settings.iqm) for name, metric in metrics.items()},
    )


def _sealed_metric(
    name: str, definitions: Mapping[str, Mapping[str, Any]], parts: ReportParts
) -> Any:
    """The metric of a name with its sealed values, unless the command itself names others.

    A metric of another class than the sealed one stays as it is. No code that only the register names
    is imported, and the report says that it deviates.

    Raises:
        ConfigError: A sealed value is out of range.
    """
    metric, sealed = parts.metrics[name], definitions.get(name)
    used = definition_of_metric(metric)
    # A word may give a whole metric (`metric.NAME`), or a value of it (`metric.NAME.KEY`).
    chosen = any(f"{key}.".startswith(f"metric.{name}.") for key in parts.chosen)
    # A class that is no dataclass names no fields, by which its values could be set and checked.
    fixed = chosen or not is_dataclass(metric)
    if fixed or sealed is None or sealed == used or sealed.get(CLASS) != used[CLASS]:
        return metric
    values = {key: value for key, value in sealed.items() if key != CLASS}
    return validate_settings(type(metric), values, f"metric.{name}.")
