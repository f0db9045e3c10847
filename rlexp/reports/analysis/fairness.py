"""Whether labels were compared on equal terms: what differs between their runs on a task."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.imported import imported_notices
from rlexp.reports.analysis.sweep_tables import test_cell
from rlexp.reports.drawing.blocks import Notice, Tone
from rlexp.reports.evidence.runs import Cell, Evidence, Member
from rlexp.reports.evidence.sweeps import TuningEffort, leaves, tuning_effort, value_text
from rlexp.text import counted, listed, numbers, shortened

SAME = 1.1
"""Ratio up to which environment steps are the same: pruning and failures make some difference."""


def efforts(evidence: Evidence, task: str) -> dict[str, TuningEffort | None]:
    """What was spent on each label of a task; nothing for one that no sweep here found.

    Default configurations of sweeps are left out: they are not tuned by design. Of runs that are
    not of the test phase nothing is said.
    """
    if evidence.phase is not Phase.TEST:
        return {}
    winners = [(test_cell(sweep, evidence, tuned=True), sweep) for sweep in evidence.sweeps]
    defaults = [test_cell(sweep, evidence, tuned=False) for sweep in evidence.sweeps]
    spent: dict[str, TuningEffort | None] = {}
    for cell in evidence.of_task(task):
        sweep = next((winning for winner, winning in winners if winner is cell), None)
        if sweep is not None or not _among(cell, defaults):
            spent[cell.label] = None if sweep is None else tuning_effort(sweep)
    return spent


def untuned(evidence: Evidence) -> tuple[str, ...]:
    """Labels that no sweep here found, and that are no sweep's default either."""
    bare = {
        label
        for task in evidence.tasks
        for label, spent in efforts(evidence, task).items()
        if spent is None
    }
    return tuple(label for label in evidence.labels if label in bare)


def tuned_unequally(evidence: Evidence) -> Iterator[Notice]:
    """A warning for each task on which labels were not tuned with the same effort."""
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
                f"On {task} {listed(tuned)} {were} tuned, and {listed(bare)} "
                f"{'was' if len(bare) == 1 else 'were'} not, as far as these records tell. So the "
                "difference may be that of tuning."
            )
        if are_unequal(list(tuned.values())):
            efforts_text = "; ".join(
                f"{label} with {label_effort}" for label, label_effort in tuned.items()
            )
            yield _warning(
                f"On {task} labels were tuned with different budgets: {efforts_text}. So whoever searched "
                "longer has an advantage."
            )


def are_unequal(spent: list[TuningEffort]) -> bool:
    """Whether they differ by more than pruning and failures explain."""
    steps = [label_effort.steps for label_effort in spent]
    return bool(steps) and max(steps) > SAME * min(steps)


def _among(cell: Cell, cells: list[Cell | None]) -> bool:
    return any(other is cell for other in cells)


def _warning(text: str) -> Notice:
    return Notice(tone=Tone.WARNING, text=text)


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
    "score": "what the score is",
    "final_episodes": "episodes of the final evaluation",
    "evaluation_deterministic": "deterministic actions in evaluations",
    "evaluation_episodes": "episodes of an evaluation during training",
    "evaluation_every": "steps between evaluations",
}
RETURNS = "what returns are of"
COMPONENTS = "environment.components"

Facts = Mapping[str, str]
"""Values by name; what has no value for a run stands there as `unset`, what is unknown does not."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """Something in which the runs of a task should not differ, and what it means if they do."""

    facts: Callable[[Member], Facts]
    tone: Tone
    meaning: str


def warnings(evidence: Evidence) -> tuple[Notice, ...]:
    """What stands against comparing the labels on their tasks, what is worst first.

    Labels are compared task by task: in steps, evaluation, environment, known scores, packages,
    code, compute, seeds and tuning. Then each label with itself: its hyperparameters on its tasks.
    """
    notices = [notice for kind in CRITERIA for notice in _differences(kind, evidence)]
    notices += [
        *imported_notices(evidence),
        *_failures(evidence),
        *tuned_unequally(evidence),
        *_dirty(evidence),
        *_seeds(evidence),
        *_hyperparameters(evidence),
    ]
    return tuple(sorted(notices, key=lambda notice: notice.tone is not Tone.WARNING))


def packages(member: Member) -> Facts:
    """Versions of the packages that can change a score, as the run recorded them."""
    installed = member.provenance.get("packages") or {}
    return {name: str(installed[name]) for name in PACKAGES if name in installed}


def changed_files(member: Member) -> tuple[str, ...]:
    """Files in which the code of a run differed from its commit."""
    code = member.provenance.get("code") or {}
    return (*(code.get("dirty") or ()), *(code.get("untracked") or ()))


def _steps(member: Member) -> Facts:
    return {"environment steps": f"{member.record.spec.budget['steps']:,}"}


def _evaluation(member: Member) -> Facts:
    budget, imported = member.record.spec.budget, member.imported
    returns = {RETURNS: value_text(imported.get("returns")) if imported else "evaluations"}
    unknown = "not known" if imported else value_text(None)
    values = {meaning: budget.get(key) for key, meaning in EVALUATION.items()}
    return returns | {w: unknown if v is None else value_text(v) for w, v in values.items()}


def _environment(member: Member) -> Facts:
    if member.imported:
        return {}
    settings = leaves(member.record.spec.environment, "environment")
    apart = ("environment.vector", COMPONENTS)
    return {name: value for name, value in settings if not name.startswith(apart)}


def _components(member: Member) -> Facts:
    return dict(leaves(member.record.spec.environment.get("components") or {}, COMPONENTS))


def _vector(member: Member) -> Facts:
    vector = member.record.spec.environment.get("vector") or {}
    return dict(leaves(vector, "environment.vector"))


def _reference(member: Member) -> Facts:
    reference = member.configuration.reference
    keys = ("random", "threshold", "minimum", "maximum")
    return {f"environment.reference.{key}": value_text(reference.get(key)) for key in keys}


def _packages(member: Member) -> Facts:
    return {f"versions of {name}": version for name, version in packages(member).items()}


def _commit(member: Member) -> Facts:
    commit = (member.provenance.get("code") or {}).get("commit")
    return {"commits of the code": str(commit)[:7]} if commit else {}


def _compute(member: Member) -> Facts:
    if member.imported:
        return {}
    compute = member.record.spec.compute
    return {name: value_text(compute.get(name)) for name in ("threads", "device")}


CRITERIA = (
    Criterion(_steps, Tone.WARNING, "whoever trains longer has an advantage"),
    Criterion(_evaluation, Tone.WARNING, "their scores do not measure the same"),
    Criterion(_environment, Tone.WARNING, "they are not the same task"),
    Criterion(
        _components,
        Tone.NOTE,
        "the components' stages say whether the task is another one, or only the training",
    ),
    Criterion(_reference, Tone.WARNING, "the first label's are used"),
    Criterion(_packages, Tone.WARNING, "a score may differ for that reason alone"),
    Criterion(_commit, Tone.WARNING, "a score may differ for that reason alone"),
    Criterion(
        _compute, Tone.NOTE, "numbers differ in the last digits, and times are not comparable"
    ),
    Criterion(
        _vector, Tone.NOTE, "training environments are set up differently, evaluations are not"
    ),
)


def _differences(kind: Criterion, evidence: Evidence) -> Iterator[Notice]:
    """A notice for everything of the kind that differs, with the tasks on which it does."""
    where: dict[str, list[str]] = {}
    for task in evidence.tasks:
        # Runs of which nothing is known do not count.
        facts_by_label = {
            cell.label: [facts for m in _unlike(cell.members) if (facts := kind.facts(m))]
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
                    f"{label} {listed(label_values)}"
                    for label, label_values in values.items()
                    if label_values
                )
                where.setdefault(f"{name}: {difference}", []).append(task)
    for difference, tasks in where.items():
        text = f"On {_named(tasks, evidence)} runs differ in {difference}. So {kind.meaning}."
        yield Notice(tone=kind.tone, text=text)


def _unlike(members: Iterable[Member]) -> Iterable[Member]:
    """One of those runs that share all that facts are about, which thousands may."""
    shared = ("algorithm", "environment", "budget", "compute")
    return {
        (
            id(m.configuration),
            id(m.provenance),
            *(id(getattr(m.record.spec, s)) for s in shared),
        ): m
        for m in members
    }.values()


def _failures(evidence: Evidence) -> Iterator[Notice]:
    """Experiments in which a failed run does not count as the same."""
    rules = {experiment.name: experiment.failures for experiment in evidence.experiments}
    if len(set(rules.values())) > 1:
        rules_text = "; ".join(f"{rule} in {name}" for name, rule in sorted(rules.items()))
        text = f"A failed run does not count as the same everywhere: {rules_text}."
        yield Notice(tone=Tone.WARNING, text=text)


def _dirty(evidence: Evidence) -> Iterator[Notice]:
    changed = [files for member in evidence.members if (files := changed_files(member))]
    if changed:
        names = sorted(set(chain.from_iterable(changed)))
        codes = [member.provenance.get("code") or {} for member in evidence.members]
        part = "" if all(code.get("saved", True) for code in codes) else ", but not all of it"
        yield Notice(
            tone=Tone.WARNING,
            text=f"{counted(len(changed), 'run')} of {len(evidence.members)} ran code that no "
            f"commit holds: {shortened(names)} differed. The change is saved with each run{part}.",
        )


def _seeds(evidence: Evidence) -> Iterator[Notice]:
    """Different numbers of runs, and different seeds, of the labels on a task."""
    for task in evidence.tasks:
        cells = evidence.of_task(task)
        counts = {cell.label: cell.planned for cell in cells}
        if len(set(counts.values())) > 1:
            counts_text = "; ".join(f"{label} {count}" for label, count in counts.items())
            text = (
                f"On {task} labels have different numbers of runs: {counts_text}. Intervals "
                "take that into account; for a verdict Welch's test must agree with the permutation "
                "test, which is exact only if both labels had the same distribution of scores."
            )
            yield Notice(tone=Tone.WARNING, text=text)
        seeds = {cell.label: seeds_in_words(cell.members) for cell in cells}
        if len(set(seeds.values())) > 1:
            seeds_text = "; ".join(
                f"{label} {label_seeds}" for label, label_seeds in seeds.items()
            )
            text = (
                f"On {task} labels have different seeds: {seeds_text}. Runs are not compared in pairs, "
                "so that is fine."
            )
            yield Notice(tone=Tone.NOTE, text=text)


def seeds_in_words(members: Iterable[Member]) -> str:
    """Seeds by root (`root 0: 0–4`)."""
    by_root: dict[int, list[int]] = {}
    for member in members:
        by_root.setdefault(member.record.spec.root, []).append(member.record.spec.seed)
    return "; ".join(f"root {root}: {numbers(seeds)}" for root, seeds in sorted(by_root.items()))


def _hyperparameters(evidence: Evidence) -> Iterator[Notice]:
    """Labels that are not the same on every task, and in what."""
    for label in evidence.labels:
        configured = {cell.task: _settings(cell) for cell in evidence.of_label(label)}
        names = sorted(set(chain.from_iterable(configured.values())))
        for name in names:
            values = {task: settings.get(name, "unset") for task, settings in configured.items()}
            if len(set(values.values())) > 1:
                values_text = "; ".join(f"{value} on {task}" for task, value in values.items())
                yield Notice(
                    tone=Tone.NOTE,
                    text=f"{label} has other settings by task: {name} is {values_text}.",
                )


def _settings(cell: Cell) -> Facts:
    spec = cell.members[0].record.spec
    return dict(chain(leaves(spec.algorithm, "algorithm"), leaves(spec.agent, "agent")))


def _named(tasks: Sequence[str], evidence: Evidence) -> str:
    every = len(tasks) == len(evidence.tasks) and len(tasks) > 2
    return "every task" if every else listed(tasks)
