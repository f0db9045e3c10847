"""Answers to the items of the checklist that are about tuning, from the sweeps in the evidence."""

from collections.abc import Iterator, Mapping
from typing import Any

from rlexp.protocol.identity import PLUG_IN, full_name, without_names
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Domain
from rlexp.reports.analysis.sweep_tables import objective, range_in_words
from rlexp.reports.answer import Answer, Judged
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.reports.imported import imported_members
from rlexp.reports.leaves import leaves
from rlexp.reports.sentences import counted, listed, numbers
from rlexp.reports.tuning_effort import are_unequal, effort, efforts, full_runs, untuned
from rlexp.reports.wording import score_in_words

LIBRARIES = ("optuna", "cmaes", "numpy", "scipy")
"""Packages that tuners are made of."""


def tuning_runs(evidence: Evidence) -> int:
    """Tuning runs that the experiments hold, whether or not the report is about them."""
    here = len(evidence.members) if evidence.phase is Phase.TUNING else 0
    return here + evidence.left_out.get(Phase.TUNING, 0)


def no_sweep(evidence: Evidence, words: str) -> Judged:
    """The answer where no experiment is a sweep: tuning was done elsewhere, if at all."""
    count = tuning_runs(evidence)
    known = f"{counted(count, 'tuning run')} beside these" if count else "no tuning run"
    return Answer.WORDS, f"The experiments hold {known}. {words}"


def tuner(evidence: Evidence) -> Judged:
    """Item 2: tuner, pruner, their settings, and versions of what they are made of."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Name tuner and method.")
    told = [f"{own.experiment}: {tuner_in_words(own)}" for own in evidence.sweeps]
    return Answer.YES, f"{'; '.join(told)}. {_versions(evidence)}"


def tuner_in_words(own: SweepEvidence) -> str:
    """A sweep's tuner and pruner with their settings."""
    return f"tuner {_member(own.sweep.tuner)}, pruner {_member(own.sweep.pruner)}"


def space(evidence: Evidence) -> Judged:
    """Item 3: where the whole space stands."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Give ranges, scales and choices.")
    told = [
        f"{counted(len(own.sweep.space.parameters), 'parameter')} of {own.experiment}"
        for own in evidence.sweeps
    ]
    return Answer.YES, f"Protocol lists {listed(told)}, with range, scale, choices and conditions."


def shared_ranges(evidence: Evidence) -> Judged:
    """Item 4: parameters that several spaces have."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Say why, if not.")
    found: dict[str, dict[str, Domain]] = {}
    for own in evidence.sweeps:
        for parameter in own.sweep.space.parameters:
            found.setdefault(parameter.key, {})[own.experiment] = parameter.domain
    shared = {key: own for key, own in found.items() if len(own) > 1}
    if not shared:
        return Answer.YES, "No two sweeps here search the same hyperparameter."
    if unequal := list(_unequal(shared)):
        return Answer.WORDS, f"Not all of them: {'; '.join(unequal)}. Say why."
    count = counted(len(shared), "hyperparameter")
    return Answer.YES, f"All sweeps that search one of {count} search the same range."


def cost_metric(evidence: Evidence) -> Judged:
    """Item 5: the score of a run, and what each sweep made of it."""
    told = sorted({score_in_words(m.record.spec.budget) for m in evidence.members})
    sweeps = [f"{own.experiment} optimised the {_objective(own)}" for own in evidence.sweeps]
    if not told and not sweeps:
        return Answer.NO, "No run was asked for."
    scores = [f"The score of a run: {' or '.join(told)}"] if told else []
    return Answer.YES, f"{'. '.join([*scores, *sweeps])}."


def budget(evidence: Evidence) -> Judged:
    """Item 6: full-run equivalents and environment steps, asked for and spent."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Give the budget of tuning.")
    told = [f"{own.experiment}: {budget_in_words(own)}" for own in evidence.sweeps]
    return Answer.YES, f"{'; '.join(told)}."


def budget_in_words(own: SweepEvidence) -> str:
    """What was asked for at most, and what was spent."""
    plan = own.sweep.plan
    limits = [
        counted(plan.trials, "trial"),
        *([f"{plan.full_runs:g} full-run equivalents"] if plan.full_runs else []),
        *([f"{plan.steps:,} environment steps"] if plan.steps else []),
        *([f"{plan.hours:g} hours"] if plan.hours else []),
    ]
    return (
        f"at most {listed(limits)}; spent {full_runs(own):.3g} full-run equivalents of "
        f"{own.steps:,} steps, {effort(own)}, selection included"
    )


def same_budget(evidence: Evidence) -> Judged:
    """Item 7: steps of the runs, and of the searches, on each task."""
    for task in evidence.tasks:
        steps = {m.record.spec.budget["steps"] for c in evidence.of_task(task) for m in c.members}
        if len(steps) > 1:
            told = " and ".join(f"{step:,}" for step in sorted(steps))
            return Answer.NO, f"On {task}, runs trained for {told} environment steps."
        spent = {label: one for label, one in efforts(evidence, task).items() if one}
        if are_unequal(list(spent.values())):
            told = "; ".join(f"{label} {one}" for label, one in spent.items())
            return Answer.NO, f"On {task}, searches took {told}."
    told = "On each task all runs have the same environment steps"
    if evidence.sweeps and not untuned(evidence):
        return Answer.YES, f"{told}, and so do the searches; defaults are untuned by design."
    return Answer.WORDS, f"{told}. Say whether the same effort went into tuning each label."


def wall_clock(evidence: Evidence) -> Judged:
    """Item 8: hardware, where a budget is in hours."""
    timed = [own.experiment for own in evidence.sweeps if own.sweep.plan.hours]
    if not timed:
        return Answer.YES, "Budgets are environment steps, so hardware does not matter to them."
    machines = {
        str((m.provenance.get("machine") or {}).get("processor"))
        for m in evidence.members
        if m.experiment in timed and m.provenance
    }
    told = f" Its test runs were on {listed(sorted(machines))}." if machines else ""
    return Answer.WORDS, (
        f"The budget of {listed(timed)} is in hours.{told} Say whether all its tuning runs had "
        "comparable hardware to themselves."
    )


def all_tuned(evidence: Evidence) -> Judged:
    """Item 9: labels that no sweep found."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Say how each was tuned.")
    if bare := untuned(evidence):
        return Answer.NO, (
            f"No sweep here tuned {listed(bare)}: tune every method with the same budget, or "
            "leave it out."
        )
    names = listed(own.experiment for own in evidence.sweeps)
    return Answer.YES, (
        f"Every method was tuned by a sweep of its own ({names}). The default configurations "
        "beside them are untuned by design: they say what tuning was worth."
    )


def tuning_seeds(evidence: Evidence) -> Judged:
    """Item 10: which seeds tuning used, and how many."""
    if evidence.sweeps:
        return Answer.YES, f"{'; '.join(_seeds_of(own, evidence) for own in evidence.sweeps)}."
    if not tuning_runs(evidence):
        return Answer.WORDS, "The experiments hold no tuning run; list the seeds that were used."
    told = [
        f"{e.name}, root {e.seeds.root}: {numbers(e.seeds.seeds(Phase.TUNING))} "
        f"({len(e.seeds.seeds(Phase.TUNING))})"
        for e in evidence.experiments
        if e.seeds.seeds(Phase.TUNING)
    ]
    return Answer.YES, f"{'; '.join(told)}."


def configurations(evidence: Evidence) -> Judged:
    """Item 13: where every setting stands."""
    if not evidence.members:
        return Answer.NO, "No configuration was asked for."
    if imported := imported_members(evidence):
        told = counted(len(imported), "imported run")
        return Answer.WORDS, f"Of {told} not every setting is known."
    cells = counted(len(evidence.cells), "configuration")
    told = f"Every setting of {cells} is in the records, and listed in Provenance"
    undecided = [own.experiment for own in evidence.sweeps if own.selection is None]
    if undecided:
        return Answer.NO, f"{listed(undecided)} has not chosen a winner yet."
    winners = ", that of each winner in Winner of the sweep too" if evidence.sweeps else ""
    return Answer.YES, f"{told}{winners}."


def includes_tuning(evidence: Evidence) -> Judged:
    """Item 15: the search is in the records, and the command that made it does it again."""
    if not evidence.sweeps:
        return no_sweep(evidence, "Say whether the code includes it.")
    names = listed(own.experiment for own in evidence.sweeps)
    return Answer.YES, (
        f"The search itself is in the records of {names}: every trial, the choice, and the "
        "definition that 'rlexp sweep' repeats it from."
    )


def _member(plain: Mapping[str, Any]) -> str:
    """A tuner or pruner by its name, with its settings."""
    name, kept = full_name(plain.get(PLUG_IN)), without_names(plain)
    settings = [f"{path.removeprefix('.')} = {value}" for path, value in leaves(kept, "")]
    return f"{name} ({', '.join(settings)})" if settings else name


def _versions(evidence: Evidence) -> str:
    found = {
        f"{name} {installed[name]}"
        for m in evidence.members
        for installed in [m.provenance.get("packages") or {}]
        for name in ("rlexp", *LIBRARIES)
        if name in installed
    }
    if not found:
        return "No run recorded the versions of its packages."
    return f"Versions: {', '.join(sorted(found))}."


def _unequal(shared: Mapping[str, Mapping[str, Domain]]) -> Iterator[str]:
    for key, own in shared.items():
        domains = list(own.values())
        if any(domain != domains[0] for domain in domains):
            told = ", ".join(f"{range_in_words(d)} in {name}" for name, d in own.items())
            yield f"{key} is {told}"


def _objective(own: SweepEvidence) -> str:
    names = own.sweep.plan.objectives
    more = f", and {listed(names[1:])}" if len(names) > 1 else ""
    return f"{own.sweep.plan.aggregate} over tuning seeds of the {objective(own)}{more}"


def _seeds_of(own: SweepEvidence, evidence: Evidence) -> str:
    root = next((e.seeds.root for e in evidence.experiments if e.name == own.experiment), None)
    where = "" if root is None else f", root {root}"
    told = f"{own.experiment}{where}: {numbers(own.tuning_seeds)} ({len(own.tuning_seeds)})"
    chosen = numbers(own.selection_seeds)
    return f"{told}, and {chosen} ({len(own.selection_seeds)}) for selection" if chosen else told
