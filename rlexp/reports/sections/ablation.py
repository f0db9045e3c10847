"""The section of ablations: what each change between two configurations does, and what did it."""

from dataclasses import dataclass

from rlexp.reports.analysis.ablation_blocks import ablation_blocks
from rlexp.reports.analysis.ablation_effects import ablation_effects
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import SectionContent


@dataclass(frozen=True, slots=True)
class AblationSection:
    """What did it, with a table and a figure of the effects of each ablation."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there is no ablation."""
        evidence = report.evidence
        computed = [ablation_effects(of, evidence) for of in evidence.ablations]
        blocks = tuple(
            block
            for effects in computed
            if effects is not None
            for block in ablation_blocks(effects, alone=len(evidence.ablations) == 1)
        )
        return (
            SectionContent(name="ablation", title="What did it", blocks=blocks) if blocks else None
        )
