"""Judges a registered experiment by the settings that its protocol sealed."""

from dataclasses import asdict, replace

from rlexp.config.report_settings import ReportParts, with_cut
from rlexp.config.validate import validate_settings
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
    return replace(
        parts,
        settings=settings,
        metrics={name: with_cut(parts.metrics[name], settings.iqm) for name in names},
    )
