"""Fairness of a comparison: differences between the runs of labels on the same task."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rlexp.protocol.measures import declaration_key
from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.imported import imported_notices
from rlexp.reports.analysis.sweep_tables import rival_cell, test_cells
from rlexp.reports.drawing.blocks import Callout, Tone
from rlexp.reports.evidence.acting import ActingCounts
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns, PlannedRun
from rlexp.reports.evidence.sweeps import (
    TuningEffort,
    flat_settings,
    hyperparameters,
    tuning_effort,
    value_text,
)
from rlexp.text import format_count, format_ranges, join_first_names, join_names

SAME = 1.1
"""Ratio up to which steps count as equal: pruning and failures cause small differences."""


def efforts(evidence: Evidence, task: str) -> dict[str, TuningEffort | None]:
    """Tuning effort of each label on a task; `None` for a label that no sweep here tuned.

    Default configurations of sweeps are left out, because they are untuned by design. The result
    is empty for phases other than test.
    """
    if evidence.phase is not Phase.TEST:
        return {}
    # A label is matched by its runs, because labels can be renamed and repeated in experiments.
    sweeps = evidence.sweeps
    winners = [(c, s) for s in sweeps for c in test_cells(s, evidence, tuned=True)]
    # The rival in a population was found by the same sweep.
    winners += [(c, s) for s in sweeps if (c := rival_cell(s, evidence)) is not None]
    defaults = [c for s in sweeps for c in test_cells(s, evidence, tuned=False)]
    spent: dict[str, TuningEffort | None] = {}
    for cell in evidence.of_task(task):
        sweep = next((winning for winner, winning in winners if winner is cell), None)
        if sweep is not None or not _among(cell, defaults):
            spent[cell.label] = None if sweep is None else tuning_effort(sweep)
    return spent


def untuned(evidence: Evidence) -> tuple[str, ...]:
    """Labels that are neither tuned by a sweep here nor the default of one."""
    bare = {
        label
        for task in evidence.tasks
        for label, spent in efforts(evidence, task).items()
        if spent is None
    }
    return tuple(label for label in evidence.labels if label in bare)


def tuned_unequally(evidence: Evidence) -> Iterator[Callout]:
    """Warnings about tasks on which labels were tuned with different efforts."""
    if not evidence.sweeps:
        return
    for task in evidence.tasks:
        spent = efforts(evidence, task)
        tuned = {
            label: label_effort
            for label, label_effort in spent.items()
            if label_effort is not None
        }
        bare = [label for label in spent if label not in tuned]
        if tuned and bare:
            were = "was" if len(tuned) == 1 else "were"
            yield _warning(
                f"On {task}, {join_names(tuned)} {were} tuned, and {join_names(bare)} "
                f"{'was' if len(bare) == 1 else 'were'} not, according to these records. Tuning "
                "may explain a difference."
            )
        if are_unequal(list(tuned.values())):
            efforts_text = "; ".join(
                f"{label} with {label_effort}" for label, label_effort in tuned.items()
            )
            yield _warning(
                f"On {task}, labels were tuned with different budgets: {efforts_text}. A longer "
                "search is an advantage."
            )


def are_unequal(spent: list[TuningEffort]) -> bool:
    """Whether the steps differ by more than pruning and failures explain."""
    steps = [label_effort.steps for label_effort in spent]
    return bool(steps) and max(steps) > SAME * min(steps)


def _among(cell: LabelTaskRuns, cells: list[LabelTaskRuns]) -> bool:
    return any(other is cell for other in cells)


def _warning(text: str) -> Callout:
    return Callout(tone=Tone.WARNING, text=text)


PACKAGES = (
    "gymnasium",
    "ale-py",
    "box2d",
    "mujoco",
    "stable-baselines3",
    "sb3-contrib",
    "torch",
    "numpy",
    "rlexp",
)
"""Packages whose versions can change a score."""
EVALUATION = {
    "score": "the definition of the score",
    "final_episodes": "episodes of the final evaluation",
    "evaluation_deterministic": "deterministic actions in evaluations",
    "evaluation_episodes": "episodes of an evaluation during training",
    "evaluation_every": "steps between evaluations",
}
RETURNS = "the source of returns"
COMPONENTS = "environment.components"

Facts = Mapping[str, str]
"""Values by name; a missing value is `unset`, and an unknown one is left out."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """Facts in which the runs of a task should agree, and the meaning of a difference."""

    facts: Callable[[PlannedRun], Facts]
    tone: Tone
    meaning: str


def warnings(evidence: Evidence) -> tuple[Callout, ...]:
    """Notices about unfair comparisons, warnings first.

    Labels are compared per task in steps, evaluation, environment, known scores, packages, code,
    compute, seeds and tuning; each label is then compared between tasks in its hyperparameters.
    """
    notices = [notice for criterion in CRITERIA for notice in _differences(criterion, evidence)]
    notices += [
        *imported_notices(evidence),
        *_failures(evidence),
        *_acting(evidence),
        *tuned_unequally(evidence),
        *_dirty(evidence),
        *_seeds(evidence),
        *_hyperparameters(evidence),
    ]
    # The sort is stable, so notices keep the order of the criteria within each tone.
    return tuple(sorted(notices, key=lambda notice: notice.tone is not Tone.WARNING))


def packages(member: PlannedRun) -> Facts:
    """Recorded versions of the packages that can change a score."""
    installed = member.provenance.get("packages") or {}
    return {name: str(installed[name]) for name in PACKAGES if name in installed}


def changed_files(member: PlannedRun) -> tuple[str, ...]:
    """Files with uncommitted changes in the code of a run."""
    code = member.provenance.get("code") or {}
    return (*(code.get("dirty") or ()), *(code.get("untracked") or ()))


def _steps(member: PlannedRun) -> Facts:
    return {"environment steps": f"{member.record.spec.budget['steps']:,}"}


def _evaluation(member: PlannedRun) -> Facts:
    budget, imported = member.record.spec.budget, member.imported
    returns = {RETURNS: value_text(imported.get("returns")) if imported else "evaluations"}
    unknown = "not known" if imported else value_text(None)
    values = {meaning: budget.get(key) for key, meaning in EVALUATION.items()}
    return returns | {w: unknown if v is None else value_text(v) for w, v in values.items()}


def _environment(member: PlannedRun) -> Facts:
    if member.imported:
        return {}
    settings = flat_settings(member.record.spec.environment, "environment")
    apart = ("environment.vector", COMPONENTS)
    return {name: value for name, value in settings if not name.startswith(apart)}


def _components(member: PlannedRun) -> Facts:
    return dict(flat_settings(member.record.spec.environment.get("components") or {}, COMPONENTS))


def _callbacks(member: PlannedRun) -> Facts:
    return dict(flat_settings(member.record.spec.callback or {}, "callback"))


def _vector(member: PlannedRun) -> Facts:
    vector = member.record.spec.environment.get("vector") or {}
    return dict(flat_settings(vector, "environment.vector"))


def _reference(member: PlannedRun) -> Facts:
    reference = member.configuration.score_reference
    prefix = declaration_key(member.configuration.budget.score)
    keys = ("random", "threshold", "minimum", "maximum")
    return {f"{prefix}.{key}": value_text(reference.get(key)) for key in keys}


def _packages(member: PlannedRun) -> Facts:
    return {f"versions of {name}": version for name, version in packages(member).items()}


def _commit(member: PlannedRun) -> Facts:
    commit = (member.provenance.get("code") or {}).get("commit")
    return {"commits of the code": str(commit)[:7]} if commit else {}


def _compute(member: PlannedRun) -> Facts:
    if member.imported:
        return {}
    compute = member.record.spec.compute
    return {name: value_text(compute.get(name)) for name in ("threads", "device")}


CRITERIA = (
    Criterion(_steps, Tone.WARNING, "Longer training is an advantage"),
    Criterion(_evaluation, Tone.WARNING, "Their scores do not measure the same quantity"),
    Criterion(_environment, Tone.WARNING, "They are different tasks"),
    Criterion(
        _components,
        Tone.NOTE,
        "The stages of the components show whether the task differs, or only the training",
    ),
    Criterion(
        _callbacks, Tone.NOTE, "Callbacks act while a run trains, and not in its evaluations"
    ),
    Criterion(_reference, Tone.WARNING, "The report uses those of the first label"),
    Criterion(_packages, Tone.WARNING, "This alone may change a score"),
    Criterion(_commit, Tone.WARNING, "This alone may change a score"),
    Criterion(
        _compute, Tone.NOTE, "Numbers may differ in the last digits, and times are not comparable"
    ),
    Criterion(_vector, Tone.NOTE, "Only training environments differ, evaluations do not"),
)


def _differences(criterion: Criterion, evidence: Evidence) -> Iterator[Callout]:
    """Notices about differing facts of one criterion, each with the tasks concerned."""
    where: dict[str, list[str]] = {}
    for task in evidence.tasks:
        # Runs without a recorded fact (imported ones) are no evidence of a difference.
        facts_by_label = {
            cell.label: [facts for m in _unlike(cell.members) if (facts := criterion.facts(m))]
            for cell in evidence.of_task(task)
        }
        for name in sorted(
            {
                name
                for label_facts in facts_by_label.values()
                for facts in label_facts
                for name in facts
            }
        ):
            values = {
                k: sorted({f.get(name, "unset") for f in label_facts})
                for k, label_facts in facts_by_label.items()
            }
            if len(set(chain.from_iterable(values.values()))) > 1:
                difference = "; ".join(
                    f"{label} {join_names(label_values)}"
                    for label, label_values in values.items()
                    if label_values
                )
                where.setdefault(f"{name}: {difference}", []).append(task)
    for difference, tasks in where.items():
        text = f"On {_named(tasks, evidence)}, runs differ in {difference}. {criterion.meaning}."
        yield Callout(tone=criterion.tone, text=text)


def _unlike(members: Iterable[PlannedRun]) -> Iterable[PlannedRun]:
    """One run for each combination of configuration, provenance and spec objects."""
    # Runs of one label share these objects in memory. Comparing identities instead of contents
    # keeps reports on thousands of runs fast; equal copies only repeat work.
    shared = ("algorithm", "environment", "callback", "budget", "compute")
    return {
        (
            id(m.configuration),
            id(m.provenance),
            *(id(getattr(m.record.spec, s)) for s in shared),
        ): m
        for m in members
    }.values()


def _failures(evidence: Evidence) -> Iterator[Callout]:
    """Warning about experiments that count failed runs differently."""
    rules = {experiment.name: experiment.failures for experiment in evidence.experiments}
    if len(set(rules.values())) > 1:
        rules_text = "; ".join(f"{rule} in {name}" for name, rule in sorted(rules.items()))
        text = f"Experiments count failed runs differently: {rules_text}."
        yield Callout(tone=Tone.WARNING, text=text)


def _acting(evidence: Evidence) -> Iterator[Callout]:
    """Warnings about labels whose runs ended before their budget, or in which something never acted."""
    for task in evidence.tasks:
        for cell in evidence.of_task(task):
            counts = ActingCounts.of(m.record for m in cell.members if not m.imported)
            for sentence in counts.sentences():
                yield _warning(f"{cell.label} on {task}: {sentence}.")


def _dirty(evidence: Evidence) -> Iterator[Callout]:
    changed = [files for member in evidence.members if (files := changed_files(member))]
    if changed:
        names = sorted(set(chain.from_iterable(changed)))
        codes = [member.provenance.get("code") or {} for member in evidence.members]
        part = "" if all(code.get("saved", True) for code in codes) else ", but not completely"
        yield Callout(
            tone=Tone.WARNING,
            text=f"{format_count(len(changed), 'run')} of {len(evidence.members)} used code with "
            f"uncommitted changes in {join_first_names(names)}. The changes are saved with each "
            f"run{part}.",
        )


def _seeds(evidence: Evidence) -> Iterator[Callout]:
    """Notices about labels with different numbers of runs, or different seeds, on a task."""
    for task in evidence.tasks:
        cells = evidence.of_task(task)
        counts = {cell.label: cell.planned for cell in cells}
        if len(set(counts.values())) > 1:
            counts_text = "; ".join(f"{label} {count}" for label, count in counts.items())
            text = (
                f"On {task}, labels have different numbers of runs: {counts_text}. Intervals "
                "account for this. A verdict requires that Welch's test agrees with the "
                "permutation test, which is exact only if both labels have the same distribution "
                "of scores."
            )
            yield Callout(tone=Tone.WARNING, text=text)
        seeds = {cell.label: seeds_in_words(cell.members) for cell in cells}
        if len(set(seeds.values())) > 1:
            seeds_text = "; ".join(
                f"{label} {label_seeds}" for label, label_seeds in seeds.items()
            )
            text = (
                f"On {task}, labels have different seeds: {seeds_text}. Runs are not paired "
                "by seed, so this does not affect verdicts."
            )
            yield Callout(tone=Tone.NOTE, text=text)


def seeds_in_words(members: Iterable[PlannedRun]) -> str:
    """Seeds of runs by root (`root 0: 0–4`)."""
    by_root: dict[int, list[int]] = {}
    for member in members:
        by_root.setdefault(member.record.spec.root, []).append(member.record.spec.seed)
    return "; ".join(
        f"root {root}: {format_ranges(seeds)}" for root, seeds in sorted(by_root.items())
    )


def _hyperparameters(evidence: Evidence) -> Iterator[Callout]:
    """Notes about labels with different hyperparameters on different tasks."""
    for label in evidence.labels:
        configured = {cell.task: _settings(cell) for cell in evidence.of_label(label)}
        names = sorted(set(chain.from_iterable(configured.values())))
        for name in names:
            values = {task: settings.get(name, "unset") for task, settings in configured.items()}
            if len(set(values.values())) > 1:
                values_text = "; ".join(f"{value} on {task}" for task, value in values.items())
                yield Callout(
                    tone=Tone.NOTE,
                    text=f"{label} has different settings per task: {name} is {values_text}.",
                )


def _settings(cell: LabelTaskRuns) -> Facts:
    spec = cell.members[0].record.spec
    return hyperparameters(spec)


def _named(tasks: Sequence[str], evidence: Evidence) -> str:
    every = len(tasks) == len(evidence.tasks) and len(tasks) > 2
    return "every task" if every else join_names(tasks)
