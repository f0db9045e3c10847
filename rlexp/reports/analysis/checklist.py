"""The reproducibility checklist of Eimer et al. (2023), filled in from the evidence.

Eimer, Lindauer and Raileanu 2023, "Hyperparameters in Reinforcement Learning and How To Tune
Them", Appendix A; the items are in our words.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.protocol.seeds import Phase
from rlexp.reports import tuning_answers as tuning
from rlexp.reports.analysis.fairness import changed_files, packages, seeds_in_words
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.answer import Answer, Judge, Judged
from rlexp.reports.evidence.runs import Evidence, Member
from rlexp.reports.imported import imported_members
from rlexp.reports.sentences import counted, listed, shortened
from rlexp.reports.wording import states

THAT_MATTER = (9, 10, 11, 12, 13)
"""Items whose answer must not be no where a report is to be strict."""
IMPORTED = (
    "Whether they are on seeds that no tuning saw, and how evaluations were seeded, is for the "
    "author to say."
)


@dataclass(frozen=True, slots=True)
class Item:
    """An item with its answer, and what the answer rests on or what is for the author to say."""

    number: int
    question: str
    answer: Answer
    evidence: str


def items(inquiry: Inquiry) -> tuple[Item, ...]:
    """All items, in the order of the paper."""
    return tuple(
        Item(number, question, *judge(inquiry.evidence))
        for number, (question, judge) in enumerate(ITEMS, start=1)
    )


def failed_checks(inquiry: Inquiry) -> tuple[str, ...]:
    """What `--strict` refuses, a line each.

    Missing data, the wrong phase, records that are not what was written, items that matter.
    """
    evidence = inquiry.evidence
    asked = items(inquiry)
    refused = [i for i in asked if i.number in THAT_MATTER and i.answer is Answer.NO]
    told = [f"checklist item {i.number}: {i.question} No: {i.evidence}" for i in refused]
    return (*_wrong_phase(evidence), *_missing(evidence), *_tampered(evidence), *told)


def _tampered(evidence: Evidence) -> Iterator[str]:
    for own in evidence.integrity:
        if own.faults:
            verb = "is" if len(own.faults) == 1 else "are"
            yield f"{own.experiment}: {counted(len(own.faults), 'record')} {verb} not what was written"


def _wrong_phase(evidence: Evidence) -> Iterator[str]:
    if evidence.phase is not Phase.TEST:
        yield f"these are {evidence.phase} runs; a report needs test runs: --phase test"


def _missing(evidence: Evidence) -> Iterator[str]:
    if not evidence.members:
        yield f"no {evidence.phase} run was asked for"
    for label in evidence.labels:
        cells = evidence.of_label(label)
        asked = {cell.task for cell in cells}
        if lacking := [task for task in evidence.tasks if task not in asked]:
            yield f"{label} was not asked for on {listed(lacking)}"
        absent = [m for cell in cells for m in cell.members if m.score is None]
        if absent:
            total = sum(cell.planned for cell in cells)
            yield f"{label}: {len(absent)} of {total} runs have no score ({states(absent)})"
    if evidence.problems:
        yield f"damaged records: {shortened(evidence.problems, 3)}"


def _imported(evidence: Evidence) -> str | None:
    """What is not known of imported runs, where there are any."""
    own = imported_members(evidence)
    return f"Imported from other tools: {counted(len(own), 'run')}. {IMPORTED}" if own else None


def _settings(evidence: Evidence) -> Judged:
    if imported := _imported(evidence):
        return Answer.WORDS, imported
    told = (
        "Environments of training, of evaluation and of each phase are seeded apart by "
        "construction. Whether the domain has levels or contexts of its own for training and for "
        "test is for the author to say."
    )
    return Answer.WORDS, told


def _test_seeds(evidence: Evidence) -> Judged:
    if evidence.phase is not Phase.TEST or not evidence.members:
        return Answer.NO, "This report holds no test run."
    if imported := _imported(evidence):
        return Answer.WORDS, imported
    counts = sorted({cell.planned for cell in evidence.cells.values()})
    told = " or ".join(str(count) for count in counts)
    return Answer.YES, f"{told} of each label on each task; {seeds_in_words(evidence.members)}."


def _all_on_test_seeds(evidence: Evidence) -> Judged:
    if evidence.phase is not Phase.TEST:
        return Answer.NO, f"These are {evidence.phase} runs."
    if not evidence.members:
        return Answer.NO, "There is no result."
    if imported := _imported(evidence):
        return Answer.WORDS, imported
    return Answer.YES, "Runs of other phases are refused."


def _code(evidence: Evidence) -> Judged:
    runs = _tried(evidence)
    codes = [m.provenance.get("code") or {} for m in runs]
    commits = sorted({str(code["commit"])[:12] for code in codes if code.get("commit")})
    if not commits or not all(code.get("commit") for code in codes):
        return Answer.NO, "Not every run knows the commit of its code: keep the study in git."
    told = f"Commit {listed(commits)}"
    if any(changed_files(m) for m in runs):
        return Answer.WORDS, f"{told}, with changes that no commit holds. Commit and link them."
    remotes = sorted({str(code["remote"]) for code in codes if code.get("remote")})
    if not remotes:
        return Answer.WORDS, f"{told}. Say where the code can be found."
    return Answer.YES, f"{told} of {listed(remotes)}."


def _software(evidence: Evidence) -> Judged:
    runs = _tried(evidence)
    if not runs or not all(packages(m) for m in runs):
        return Answer.NO, "Not every run recorded its packages."
    kinds = {tuple(sorted((m.provenance.get("packages") or {}).items())) for m in runs}
    told = "the same in all runs" if len(kinds) == 1 else f"{len(kinds)} different sets"
    return Answer.YES, f"Every run recorded all packages with versions: {told}."


def _hardware(evidence: Evidence) -> Judged:
    runs = _tried(evidence)
    machines = [m.provenance.get("machine") or {} for m in runs]
    if not runs or not all(machine.get("processor") for machine in machines):
        return Answer.NO, "Not every run knows its machine."
    told = sorted({f"{m['processor']}, {counted(m.get('cores') or 0, 'core')}" for m in machines})
    devices = sorted({str(m.record.spec.compute["device"]) for m in runs})
    return Answer.YES, f"{'; '.join(told)}; device {listed(devices)}."


def _tried(evidence: Evidence) -> list[Member]:
    return [m for m in evidence.members if m.record.attempts]


ITEMS: tuple[tuple[str, Judge], ...] = (
    ("Are settings for training and for test defined, and are they kept apart?", _settings),
    ("Is the tuner named, with the method it implements?", tuning.tuner),
    ("Is the whole search space given?", tuning.space),
    ("Do algorithms share the ranges of hyperparameters they share?", tuning.shared_ranges),
    ("Is it said which cost was optimised?", tuning.cost_metric),
    ("Is the budget of tuning given?", tuning.budget),
    ("Did all methods have the same budget?", tuning.same_budget),
    ("If the budget is wall-clock: was the hardware comparable?", tuning.wall_clock),
    ("Were all methods, baselines too, tuned in this way?", tuning.all_tuned),
    ("Are the tuning seeds listed, and how many?", tuning.tuning_seeds),
    ("Are the test seeds listed, and how many?", _test_seeds),
    ("Are all results on test seeds?", _all_on_test_seeds),
    ("Is the final configuration given for every algorithm and task?", tuning.configurations),
    ("Is the code that reproduces the experiments linked?", _code),
    ("Does the code include tuning?", tuning.includes_tuning),
    ("Is the software environment given exactly?", _software),
    ("Is the hardware given?", _hardware),
)
