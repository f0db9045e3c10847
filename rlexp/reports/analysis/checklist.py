"""The reproducibility checklist of Eimer et al. (2023), filled in from the evidence.

Eimer, Lindauer and Raileanu 2023, "Hyperparameters in Reinforcement Learning and How To Tune
Them", Appendix A; the items are paraphrased.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Domain
from rlexp.reports.analysis.fairness import (
    are_unequal,
    changed_files,
    efforts,
    packages,
    seeds_in_words,
    untuned,
)
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    budget_in_words,
    objective,
    range_in_words,
    tuner_in_words,
)
from rlexp.reports.evidence.runs import (
    Evidence,
    PlannedRun,
    imported_members,
    run_states_text,
    score_definition,
)
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.text import format_count, format_ranges, join_first_names, join_names


class ChecklistAnswer(StrEnum):
    """Answer to an item, as far as the records give one."""

    YES = "yes"
    NO = "no"
    WORDS = "needs words"


Judgement = tuple[ChecklistAnswer, str]
"""An answer, and the evidence for it or the task for the author, in sentences."""
JudgeItem = Callable[[Evidence], Judgement]


LIBRARIES = ("optuna", "cmaes", "numpy", "scipy")
"""Packages on which tuners are built."""


def tuning_runs(evidence: Evidence) -> int:
    """Number of tuning runs in the experiments, in the report or left out."""
    here = len(evidence.members) if evidence.phase is Phase.TUNING else 0
    return here + evidence.left_out.get(Phase.TUNING, 0)


def no_sweep(evidence: Evidence, request: str) -> Judgement:
    """The answer where no experiment is a sweep, with a request to the author."""
    count = tuning_runs(evidence)
    existing = f"{format_count(count, 'tuning run')}" if count else "no tuning run"
    return ChecklistAnswer.WORDS, f"The experiments contain {existing}, and no sweep. {request}"


def imported_sweeps(evidence: Evidence) -> str:
    """The names of the searches of other tools; empty without one."""
    return join_names(sweep.experiment for sweep in evidence.sweeps if sweep.imported)


def tuner(evidence: Evidence) -> Judgement:
    """Item 2: tuner, pruner, their settings, and versions of their packages."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Name the tuner and its method.")
    if names := imported_sweeps(evidence):
        return (
            ChecklistAnswer.WORDS,
            f"{names} was searched by another tool, whose records do not name the tuner. Name it.",
        )
    descriptions = [f"{sweep.experiment}: {tuner_in_words(sweep)}" for sweep in evidence.sweeps]
    return ChecklistAnswer.YES, f"{'; '.join(descriptions)}. {_versions(evidence)}"


def space(evidence: Evidence) -> Judgement:
    """Item 3: where the report lists the search space."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Give ranges, scales and choices.")
    sizes = [
        f"{format_count(len(sweep.definition.space.parameters), 'parameter')} of {sweep.experiment}"
        for sweep in evidence.sweeps
    ]
    return (
        ChecklistAnswer.YES,
        f"Protocol lists {join_names(sizes)}, with range, scale, choices and conditions.",
    )


def shared_ranges(evidence: Evidence) -> Judgement:
    """Item 4: ranges of parameters that several search spaces share."""
    if not evidence.sweeps:
        return no_sweep(evidence, "State why, if they do not.")
    domains: dict[str, dict[str, Domain]] = {}
    for sweep in evidence.sweeps:
        for parameter in sweep.definition.space.parameters:
            domains.setdefault(parameter.key, {})[sweep.experiment] = parameter.domain
    shared = {key: by_sweep for key, by_sweep in domains.items() if len(by_sweep) > 1}
    if not shared:
        return ChecklistAnswer.YES, "No two sweeps here search the same hyperparameter."
    if unequal := list(_unequal(shared)):
        return ChecklistAnswer.WORDS, f"Ranges differ: {'; '.join(unequal)}. State why."
    count = format_count(len(shared), "hyperparameter")
    return ChecklistAnswer.YES, f"All sweeps that search one of {count} search the same range."


def cost_metric(evidence: Evidence) -> Judgement:
    """Item 5: the score of a run, and the objective of each sweep."""
    definitions = sorted({score_definition(m.record.spec) for m in evidence.members})
    sweeps = [f"{sweep.experiment} optimised the {_objective(sweep)}" for sweep in evidence.sweeps]
    if not definitions and not sweeps:
        return ChecklistAnswer.NO, "No run is planned."
    scores = [f"The score of a run: {' or '.join(definitions)}"] if definitions else []
    return ChecklistAnswer.YES, f"{'. '.join([*scores, *sweeps])}."


def budget(evidence: Evidence) -> Judgement:
    """Item 6: full-run equivalents and environment steps, planned and spent."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Give the tuning budget.")
    descriptions = [f"{sweep.experiment}: {budget_in_words(sweep)}" for sweep in evidence.sweeps]
    return ChecklistAnswer.YES, f"{'; '.join(descriptions)}."


def same_budget(evidence: Evidence) -> Judgement:
    """Item 7: steps of the runs, and of the searches, on each task."""
    for task in evidence.tasks:
        steps = {m.record.spec.budget["steps"] for c in evidence.of_task(task) for m in c.members}
        if len(steps) > 1:
            steps_text = " and ".join(f"{step:,}" for step in sorted(steps))
            return (
                ChecklistAnswer.NO,
                f"On {task}, runs trained for {steps_text} environment steps.",
            )
        spent = {
            label: label_effort
            for label, label_effort in efforts(evidence, task).items()
            if label_effort
        }
        if are_unequal(list(spent.values())):
            efforts_text = "; ".join(
                f"{label} {label_effort}" for label, label_effort in spent.items()
            )
            return ChecklistAnswer.NO, f"On {task}, searches took {efforts_text}."
    same_steps = "On each task, all runs have the same number of environment steps"
    if evidence.sweeps and not untuned(evidence):
        return (
            ChecklistAnswer.YES,
            f"{same_steps}, and so have the searches. Defaults are untuned by design.",
        )
    return (
        ChecklistAnswer.WORDS,
        f"{same_steps}. State whether every label was tuned with the same effort.",
    )


def wall_clock(evidence: Evidence) -> Judgement:
    """Item 8: hardware, where a budget is in hours."""
    timed = [sweep.experiment for sweep in evidence.sweeps if sweep.definition.plan.hours]
    if not timed:
        return (
            ChecklistAnswer.YES,
            "Budgets are in environment steps, which do not depend on hardware.",
        )
    machines = {
        str((m.provenance.get("machine") or {}).get("processor"))
        for m in evidence.members
        if m.experiment in timed and m.provenance
    }
    hardware = f" Its test runs were on {join_names(sorted(machines))}." if machines else ""
    return ChecklistAnswer.WORDS, (
        f"The budget of {join_names(timed)} is in hours.{hardware} State whether all its tuning runs "
        "had comparable hardware without other load."
    )


def all_tuned(evidence: Evidence) -> Judgement:
    """Item 9: labels that no sweep tuned."""
    if not evidence.sweeps:
        return no_sweep(evidence, "State how each method was tuned.")
    if bare := untuned(evidence):
        return ChecklistAnswer.NO, (
            f"No sweep in this report tuned {join_names(bare)}: tune every method with the same "
            "budget, or leave it out."
        )
    names = join_names(sweep.experiment for sweep in evidence.sweeps)
    return ChecklistAnswer.YES, (
        f"A separate sweep tuned every method ({names}). The default configurations "
        "are untuned by design: they show the gain from tuning."
    )


def tuning_seeds(evidence: Evidence) -> Judgement:
    """Item 10: which seeds tuning used, and how many."""
    if names := imported_sweeps(evidence):
        return (
            ChecklistAnswer.WORDS,
            f"{names} was searched by another tool, whose records do not name the seeds. List them.",
        )
    if evidence.sweeps:
        return (
            ChecklistAnswer.YES,
            f"{'; '.join(_seeds_of(sweep, evidence) for sweep in evidence.sweeps)}.",
        )
    if not tuning_runs(evidence):
        return (
            ChecklistAnswer.WORDS,
            "The experiments contain no tuning run; list the seeds that were used.",
        )
    descriptions = [
        f"{e.name}, root {e.seeds.root}: {format_ranges(e.seeds.seeds(Phase.TUNING))} "
        f"({len(e.seeds.seeds(Phase.TUNING))})"
        for e in evidence.experiments
        if e.seeds.seeds(Phase.TUNING)
    ]
    return ChecklistAnswer.YES, f"{'; '.join(descriptions)}."


def configurations(evidence: Evidence) -> Judgement:
    """Item 13: where the report lists every setting."""
    if not evidence.members:
        return ChecklistAnswer.NO, "No configuration is planned."
    if imported := imported_members(evidence):
        runs = format_count(len(imported), "imported run")
        return ChecklistAnswer.WORDS, f"Some settings of {runs} are not known."
    cells = format_count(len(evidence.cells), "configuration")
    listing = f"Every setting of {cells} is in the records, and listed in Provenance"
    undecided = [sweep.experiment for sweep in evidence.sweeps if sweep.selection is None]
    if undecided:
        return ChecklistAnswer.NO, f"{join_names(undecided)} has not chosen a winner yet."
    winners = (
        "; the section Tuned configuration lists those of each sweep, too"
        if evidence.sweeps
        else ""
    )
    return ChecklistAnswer.YES, f"{listing}{winners}."


def includes_tuning(evidence: Evidence) -> Judgement:
    """Item 15: the records of the search, and the command that repeats it."""
    if not evidence.sweeps:
        return no_sweep(evidence, "State whether the code includes tuning.")
    names = join_names(sweep.experiment for sweep in evidence.sweeps)
    return ChecklistAnswer.YES, (
        f"The records of {names} contain the search: every trial, the choice, and the "
        "definition from which 'rlexp sweep' repeats it."
    )


def _versions(evidence: Evidence) -> str:
    versions = {
        f"{name} {installed[name]}"
        for m in evidence.members
        for installed in [m.provenance.get("packages") or {}]
        for name in ("rlexp", *LIBRARIES)
        if name in installed
    }
    if not versions:
        return "No run recorded the versions of its packages."
    return f"Versions: {', '.join(sorted(versions))}."


def _unequal(shared: Mapping[str, Mapping[str, Domain]]) -> Iterator[str]:
    for key, by_sweep in shared.items():
        domains = list(by_sweep.values())
        if any(domain != domains[0] for domain in domains):
            ranges = ", ".join(f"{range_in_words(d)} in {name}" for name, d in by_sweep.items())
            yield f"{key} is {ranges}"


def _objective(sweep: SweepEvidence) -> str:
    names = sweep.definition.plan.objectives
    more = f", and {join_names(names[1:])}" if len(names) > 1 else ""
    return f"{sweep.definition.plan.aggregate} over tuning seeds of the {objective(sweep)}{more}"


def _seeds_of(sweep: SweepEvidence, evidence: Evidence) -> str:
    root = next((e.seeds.root for e in evidence.experiments if e.name == sweep.experiment), None)
    where = "" if root is None else f", root {root}"
    tuning = f"{sweep.experiment}{where}: {format_ranges(sweep.tuning_seeds)} ({len(sweep.tuning_seeds)})"
    chosen = format_ranges(sweep.selection_seeds)
    return (
        f"{tuning}, and {chosen} ({len(sweep.selection_seeds)}) for selection"
        if chosen
        else tuning
    )


THAT_MATTER = (9, 10, 11, 12, 13)
"""Items for which `--strict` refuses the answer no."""
IMPORTED = (
    "State whether tuning used other seeds than these runs, and how evaluations were seeded."
)


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """An item with its answer, and the evidence for it or the task for the author."""

    number: int
    question: str
    answer: ChecklistAnswer
    evidence: str


def items(report: ReportContext) -> tuple[ChecklistItem, ...]:
    """Answers to all items, in the order of the paper."""
    # A section shows them, and `--strict` asks for those that failed.
    if "checklist" not in report.computed:
        report.computed["checklist"] = tuple(
            ChecklistItem(number, question, *judge(report.evidence))
            for number, (question, judge) in enumerate(ITEMS, start=1)
        )
    answered: tuple[ChecklistItem, ...] = report.computed["checklist"]
    return answered


def failed_checks(report: ReportContext) -> tuple[str, ...]:
    """Reasons for which `--strict` refuses the report, one line each.

    They are missing data, a phase other than test, records that differ from the ledger, and
    failed items of the checklist.
    """
    evidence = report.evidence
    if not evidence.members and (names := _open_streams(evidence)):
        # Every item about test runs would only repeat this.
        return (f"{join_names(names)} takes candidates, and has no test run yet",)
    answered = items(report)
    refused = [i for i in answered if i.number in THAT_MATTER and i.answer is ChecklistAnswer.NO]
    failed = [f"checklist item {i.number}: {i.question} No: {i.evidence}" for i in refused]
    return (*_wrong_phase(evidence), *_missing(evidence), *_tampered(evidence), *failed)


def _open_streams(evidence: Evidence) -> list[str]:
    """The streams that take candidates, where nothing else is reported and no record is wrong."""
    sweeps = evidence.sweeps
    are_open = all(s.definition.is_stream and s.selection is None for s in sweeps)
    alone = len(sweeps) == len(evidence.experiments)
    wrong = evidence.problems or any(each.faults for each in evidence.integrity)
    return [s.experiment for s in sweeps] if are_open and alone and not wrong else []


def _tampered(evidence: Evidence) -> Iterator[str]:
    for integrity in evidence.integrity:
        if integrity.faults:
            verb = "differs" if len(integrity.faults) == 1 else "differ"
            records = format_count(len(integrity.faults), "record")
            yield f"{integrity.experiment}: {records} {verb} from the ledger"


def _wrong_phase(evidence: Evidence) -> Iterator[str]:
    if evidence.phase is not Phase.TEST:
        yield f"these are {evidence.phase} runs; a report needs test runs: --phase test"


def _missing(evidence: Evidence) -> Iterator[str]:
    if not evidence.members:
        yield f"no {evidence.phase} run is planned"
    for label in evidence.labels:
        cells = evidence.of_label(label)
        planned = {cell.task for cell in cells}
        if lacking := [task for task in evidence.tasks if task not in planned]:
            yield f"{label} has no planned run on {join_names(lacking)}"
        absent = [m for cell in cells for m in cell.members if m.score is None]
        if absent:
            total = sum(cell.planned for cell in cells)
            yield f"{label}: {len(absent)} of {total} runs have no score ({run_states_text(absent)})"
    if evidence.problems:
        yield f"damaged records: {join_first_names(evidence.problems, 3)}"


def _imported(evidence: Evidence) -> str | None:
    """Request to the author about imported runs; `None` without imported runs."""
    imported = imported_members(evidence)
    if names := imported_sweeps(evidence):
        return f"Another tool made the search of {names}. {IMPORTED}"
    return (
        f"Imported from other tools: {format_count(len(imported), 'run')}. {IMPORTED}"
        if imported
        else None
    )


def _settings(evidence: Evidence) -> Judgement:
    if imported := _imported(evidence):
        return ChecklistAnswer.WORDS, imported
    separation = (
        "Environments of training, evaluation and each phase have different seeds by "
        "construction. State whether the domain has separate levels or contexts for training and "
        "test."
    )
    return ChecklistAnswer.WORDS, separation


def _test_seeds(evidence: Evidence) -> Judgement:
    if evidence.phase is not Phase.TEST or not evidence.members:
        return ChecklistAnswer.NO, "This report contains no test run."
    if imported := _imported(evidence):
        return ChecklistAnswer.WORDS, imported
    counts = sorted({cell.planned for cell in evidence.cells.values()})
    numbers_of_runs = " or ".join(str(count) for count in counts)
    return (
        ChecklistAnswer.YES,
        f"{numbers_of_runs} per label and task; {seeds_in_words(evidence.members)}.",
    )


def _all_on_test_seeds(evidence: Evidence) -> Judgement:
    if evidence.phase is not Phase.TEST:
        return ChecklistAnswer.NO, f"These are {evidence.phase} runs."
    if not evidence.members:
        return ChecklistAnswer.NO, "There is no result."
    if imported := _imported(evidence):
        return ChecklistAnswer.WORDS, imported
    return ChecklistAnswer.YES, "The report refuses runs of other phases."


def _code(evidence: Evidence) -> Judgement:
    runs = _tried(evidence)
    codes = [m.provenance.get("code") or {} for m in runs]
    commits = sorted({str(code["commit"])[:12] for code in codes if code.get("commit")})
    if not commits or not all(code.get("commit") for code in codes):
        return (
            ChecklistAnswer.NO,
            "Some runs did not record the commit of their code: keep the study in git.",
        )
    shown = f"Commit {join_names(commits)}"
    if any(changed_files(m) for m in runs):
        return (
            ChecklistAnswer.WORDS,
            f"{shown}, with uncommitted changes. Commit and link them.",
        )
    remotes = sorted({str(code["remote"]) for code in codes if code.get("remote")})
    if not remotes:
        return ChecklistAnswer.WORDS, f"{shown}. State where the code can be found."
    return ChecklistAnswer.YES, f"{shown} of {join_names(remotes)}."


def _software(evidence: Evidence) -> Judgement:
    runs = _tried(evidence)
    if not runs or not all(packages(m) for m in runs):
        return ChecklistAnswer.NO, "Some runs did not record their packages."
    kinds = {tuple(sorted((m.provenance.get("packages") or {}).items())) for m in runs}
    sameness = "the same in all runs" if len(kinds) == 1 else f"{len(kinds)} different sets"
    return ChecklistAnswer.YES, f"Every run recorded all packages with versions: {sameness}."


def _hardware(evidence: Evidence) -> Judgement:
    runs = _tried(evidence)
    machines = [m.provenance.get("machine") or {} for m in runs]
    if not runs or not all(machine.get("processor") for machine in machines):
        return ChecklistAnswer.NO, "Some runs did not record their machine."
    processors = sorted(
        {f"{m['processor']}, {format_count(m.get('cores') or 0, 'core')}" for m in machines}
    )
    devices = sorted({str(m.record.spec.compute["device"]) for m in runs})
    return ChecklistAnswer.YES, f"{'; '.join(processors)}; device {join_names(devices)}."


def _tried(evidence: Evidence) -> list[PlannedRun]:
    return [m for m in evidence.members if m.record.attempts]


ITEMS: tuple[tuple[str, JudgeItem], ...] = (
    ("Are settings for training and for test defined, and are they kept apart?", _settings),
    ("Is the tuner named, with the method it implements?", tuner),
    ("Is the whole search space given?", space),
    ("Do algorithms use the same ranges for shared hyperparameters?", shared_ranges),
    ("Is the optimised cost metric stated?", cost_metric),
    ("Is the tuning budget given?", budget),
    ("Did all methods have the same budget?", same_budget),
    ("If the budget is wall-clock time: was the hardware comparable?", wall_clock),
    ("Were all methods, including baselines, tuned in this way?", all_tuned),
    ("Are the tuning seeds listed, and how many?", tuning_seeds),
    ("Are the test seeds listed, and how many?", _test_seeds),
    ("Are all results on test seeds?", _all_on_test_seeds),
    ("Is the final configuration given for every algorithm and task?", configurations),
    ("Is the code that reproduces the experiments linked?", _code),
    ("Does the code include tuning?", includes_tuning),
    ("Is the software environment given exactly?", _software),
    ("Is the hardware given?", _hardware),
)
