"""The mirror process of trackers, with the answer that reports give.

A command starts this module as a process of its own. The mirror is on a floor below reports, so the
answer of a report is passed to it here.
"""

from collections.abc import Iterator
from threading import Lock

from rlexp.app.reporting.build import card_context, card_of
from rlexp.app.tracking.mirror_process import main
from rlexp.app.tracking.tracked_records import AnswerReader
from rlexp.app.workspace import Workspace
from rlexp.metrics.estimate_text import decimals_of_width, with_ends
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.winner_assessment import WinnerAssessment, assess_winner
from rlexp.store.layout import ExperimentPaths
from rlexp.trackers import TrackedAnswer, TrackedPhase


def answer_reader(workspace: Workspace) -> AnswerReader:
    """The reader of answers for a workspace, which computes the answer to one state once."""
    # Each tracker has a thread, and an answer can take seconds.
    lock = Lock()
    answers: dict[tuple[str, str], TrackedAnswer | None] = {}

    def read(paths: ExperimentPaths, state: str) -> TrackedAnswer | None:
        with lock:
            if (paths.name, state) not in answers:
                answers[paths.name, state] = read_answer(paths.name, workspace)
            return answers[paths.name, state]

    return read


def read_answer(name: str, workspace: Workspace) -> TrackedAnswer | None:
    """The answer of an experiment's card, with the phases of a sweep's winner.

    Returns:
        None where the records or the settings of reports cannot be read: every other number is
        mirrored all the same.
    """
    context = card_context(name, None, workspace)
    if context is None:
        return None
    card, assessment = card_of(context), _assessment(context)
    gap = None if assessment is None else assessment.optimism
    return TrackedAnswer(
        text=card.text,
        basis=card.basis,
        phases=() if assessment is None else tuple(_phases(assessment)),
        optimism=None if gap is None else gap.estimate,
        optimism_text="" if gap is None else with_ends(gap, decimals_of_width(gap)),
    )


def _assessment(context: ReportContext) -> WinnerAssessment | None:
    """The assessment of a sweep's winner; None before there is one."""
    sweeps = context.evidence.sweeps
    if len(sweeps) != 1 or sweeps[0].selection is None:
        return None
    return assess_winner(sweeps[0], sweeps[0].selection, context)


def _phases(assessment: WinnerAssessment) -> Iterator[TrackedPhase]:
    """The phases of the winner, which is the first trial that was measured."""
    winner = assessment.measured[0].trial
    for measured in assessment.measured:
        if measured.trial == winner:
            yield TrackedPhase(phase=measured.phase, planned=measured.planned, mean=measured.mean)


if __name__ == "__main__":
    main(answer_reader)
