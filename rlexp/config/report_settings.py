"""Settings and plug-ins of a report, composed from `conf/report.yaml`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlexp.config.compose import compose_one
from rlexp.config.overrides import REPORT_GROUPS, split_override
from rlexp.config.validate import build_named, validate_settings
from rlexp.errors import ConfigError
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.stats.aggregate import Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportParts:
    """The settings of a report, and its metrics and sections by name, in order.

    `composed` is the resolved configuration as JSON, and `chosen` holds the keys that the command set.
    """

    settings: ReportSettings
    metrics: dict[str, Any]
    sections: dict[str, Any]
    composed: str
    chosen: frozenset[str] = frozenset()


def with_cut(metric: Any, cut: Cut) -> Any:
    """The metric; one with a field `cut`, as the interquartile mean, gets that of the settings."""
    return replace(metric, cut=cut) if getattr(metric, "cut", cut) != cut else metric


def read_report(
    overrides: Sequence[str], folder: Path, allowed: Sequence[str] = ()
) -> ReportParts:
    """Compose and validate the settings of a report.

    Args:
        overrides: Overrides in Hydra's grammar.
        folder: The study's folder, whose `conf/` wins over the packaged one.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: An override is unknown, mistyped or out of range.
    """
    settings = compose_one("report_entry", overrides, folder)
    # Before the plug-ins are taken out, and before values of environment variables are filled in.
    composed = json.dumps(settings, default=repr)
    metrics, sections = (
        build_named(settings.pop(group, {}), group, allowed) for group in REPORT_GROUPS
    )
    if not metrics:
        raise ConfigError(
            "metric is empty: write one or more metrics, the main one first: metric=[iqm,mean]"
        )
    validated = validate_settings(ReportSettings, settings)
    return ReportParts(
        settings=validated,
        metrics={name: with_cut(metric, validated.iqm) for name, metric in metrics.items()},
        sections=sections,
        composed=composed,
        chosen=frozenset(split_override(word)[0] for word in overrides),
    )
