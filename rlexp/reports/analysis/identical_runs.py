"""Labels whose runs are bit-identical: what differs in their settings changed nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from rlexp.protocol.leaf_differences import LeafDifference, leaf_differences
from rlexp.protocol.spec import described
from rlexp.records.run import State
from rlexp.reports.analysis.estimates import LabelPair
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.reports.evidence.sweeps import value_text
from rlexp.stats.pairs.pairwise_family import Verdict
from rlexp.text import format_count, join_first_names

MOST_DIFFERENCES = 5
"""Most differing settings that a sentence names."""

RunKey = tuple[str, int, int]
"""Task, root and seed of a run."""


@dataclass(frozen=True, slots=True)
class IdenticalLabels:
    """Two labels whose runs of the same seed ended with the same parameters and score.

    Attributes:
        first: The first label.
        second: The second label.
        runs: Number of completed runs that both labels have.
        differences: Settings that differ on a common task.
    """

    first: str
    second: str
    runs: int
    differences: tuple[LeafDifference, ...]

    @property
    def sentence(self) -> str:
        """The labels, the number of identical runs, and what differs in their settings."""
        return (
            f"{self.first} and {self.second} are identical: {self._runs} ended with bit-identical "
            f"parameters and the same score. {self._settings} More seeds cannot tell them apart."
        )

    @property
    def _runs(self) -> str:
        if self.runs == 1:
            return "the run that both have of one seed"
        return f"all {format_count(self.runs, 'run')} that both have of the same seed"

    @property
    def _settings(self) -> str:
        if not self.differences:
            return "Their settings are equal, too."
        named = [
            f"{d.path} ({value_text(d.first)} and {value_text(d.second)})"
            for d in self.differences
        ]
        return (
            f"Their settings differ in {join_first_names(named, MOST_DIFFERENCES)}, which changed "
            "nothing in these runs."
        )


def identical_labels(report: ReportContext) -> Mapping[tuple[str, str], IdenticalLabels]:
    """Every pair of labels with bit-identical runs, in the order of the labels."""
    # Several sections ask for them.
    if "identical_labels" not in report.computed:
        report.computed["identical_labels"] = _identical_labels(report.evidence)
    identical: Mapping[tuple[str, str], IdenticalLabels] = report.computed["identical_labels"]
    return identical


def is_told_apart(pair: LabelPair) -> bool:
    """Whether a pair is decided, by runs of other seeds than those that both labels have."""
    decided = {Verdict.BETTER, Verdict.WORSE}
    return pair.decision is not None and pair.decision.verdict in decided


def _identical_labels(evidence: Evidence) -> dict[tuple[str, str], IdenticalLabels]:
    outcomes = {
        label: {_key(m): m for cell in evidence.of_label(label) for m in cell.members}
        for label in evidence.labels
    }
    return {
        (first, second): _compared(first, second, outcomes[first], outcomes[second], completed)
        for first, second in combinations(evidence.labels, 2)
        if (completed := _identical_runs(outcomes[first], outcomes[second]))
    }


def _key(member: PlannedRun) -> RunKey:
    return member.task, member.record.spec.root, member.record.spec.seed


def _identical_runs(
    first: Mapping[RunKey, PlannedRun], second: Mapping[RunKey, PlannedRun]
) -> list[RunKey]:
    """The completed runs of two labels if all that both ended are identical; else none."""
    common = [k for k in first if k in second and _ended(first[k]) and _ended(second[k])]
    if not all(_outcome(first[k]) == _outcome(second[k]) for k in common):
        return []
    completed = [k for k in common if first[k].record.state is State.COMPLETED]
    # Without a digest, as of imported runs, equal scores do not show equal parameters.
    return completed if all(first[k].record.weights for k in completed) else []


def _ended(member: PlannedRun) -> bool:
    return member.record.state in {State.COMPLETED, State.FAILED}


def _outcome(member: PlannedRun) -> tuple[State, str | None, float | None]:
    return member.record.state, member.record.weights, member.score


def _compared(
    first: str,
    second: str,
    runs: Mapping[RunKey, PlannedRun],
    others: Mapping[RunKey, PlannedRun],
    completed: list[RunKey],
) -> IdenticalLabels:
    parts, other = (described(side[completed[0]].record.spec.parts) for side in (runs, others))
    return IdenticalLabels(first, second, len(completed), tuple(leaf_differences(parts, other)))
