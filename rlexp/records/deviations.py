"""What an experiment does in another way than its registration says."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import Plain
from rlexp.protocol.seeds import Phase
from rlexp.records.look import Look
from rlexp.records.registration import Registration, SealedStudy
from rlexp.records.run import RunRecord
from rlexp.text import format_count, format_ranges, join_first_names

BEFORE = "started before the registration"
"""The end of the deviation that no honest order of commands can cause."""
MOST_NAMED = 3
"""Most labels that a deviation names."""


def deviations_of(
    registration: Registration,
    experiment: Experiment,
    records: Iterable[RunRecord],
    looks: Iterable[Look],
) -> tuple[str, ...]:
    """The deviations of an experiment from its registration, each as a short text.

    Args:
        registration: The registration.
        experiment: The experiment that belongs to it.
        records: The records of its test runs.
        looks: The looks of the register.
    """
    study = registration.study
    return (
        *_of_seeds(registration, experiment),
        *_of_labels(study, experiment),
        *dict.fromkeys(_of_configurations(study, experiment)),
        *_of_failures(study, experiment),
        *_of_time(registration, list(records)),
        *_of_looks(registration, experiment, looks),
    )


def _of_seeds(registration: Registration, experiment: Experiment) -> Iterator[str]:
    if experiment.seeds.root != registration.root:
        yield f"test seeds of root {experiment.seeds.root} instead of {registration.root}"
    sealed, planned = registration.study.test_seeds, experiment.seeds.seeds(Phase.TEST)
    if set(planned) < set(sealed):
        yield f"{len(planned):,} of {format_count(len(sealed), 'seed')}"
    elif set(planned) > set(sealed):
        yield f"{len(planned):,} instead of {format_count(len(sealed), 'seed')}"
    elif set(planned) != set(sealed):
        yield f"seeds {format_ranges(planned)} instead of {format_ranges(sealed)}"
    if experiment.allotted:
        yield "other numbers of seeds for some labels"


def _of_labels(study: SealedStudy, experiment: Experiment) -> Iterator[str]:
    # An experiment may have a label on some of its tasks only.
    sealed, planned = _names(study.configurations), _names(experiment.configurations)
    if missing := [name for name in sealed if name not in planned]:
        yield f"without {join_first_names(missing, MOST_NAMED)}"
    if added := [name for name in planned if name not in sealed]:
        yield f"with {join_first_names(added, MOST_NAMED)}, not registered"


def _names(configurations: Sequence[Configuration]) -> list[str]:
    several = len({c.task for c in configurations}) > 1
    return [f"{c.label} on {c.task}" if several else c.label for c in configurations]


def _of_configurations(study: SealedStudy, experiment: Experiment) -> Iterator[str]:
    """Other budgets, and other settings, of the labels that were registered."""
    sealed = {(c.label, c.task): c for c in study.configurations}
    for configuration in experiment.configurations:
        before = sealed.get((configuration.label, configuration.task))
        if before is None:
            continue
        changed = list(_of_budget(before.budget.defining(), configuration.budget.defining()))
        yield from changed
        if before.fingerprint != configuration.fingerprint and not changed:
            yield f"other settings of {configuration.label}"
        if (before.reference, before.measures) != (
            configuration.reference,
            configuration.measures,
        ):
            yield f"other known scores of {configuration.task}"


def _of_budget(sealed: Plain, used: Plain) -> Iterator[str]:
    for key in dict.fromkeys((*sealed, *used)):
        if sealed.get(key) != used.get(key):
            name = "budget" if key == "steps" else f"budget.{key}"
            yield changed_value(name, sealed.get(key), used.get(key))


def changed_value(name: str, sealed: Any, used: Any) -> str:
    """A value that differs from the sealed one (`margin 10 instead of 20`)."""
    return f"{name} {setting_text(used)} instead of {setting_text(sealed)}"


def setting_text(value: object) -> str:
    """A sealed value as text; numbers as they are typed."""
    if value is None:
        return "none"
    # Budgets are typed without a separator, and a reader compares them with typed words.
    return f"{value:g}" if isinstance(value, float) else str(value)


def _of_failures(study: SealedStudy, experiment: Experiment) -> Iterator[str]:
    if experiment.failures != study.failures:
        yield changed_value("failures", study.failures, experiment.failures)


def _of_time(registration: Registration, records: Sequence[RunRecord]) -> Iterator[str]:
    early = [r for r in records if r.started is not None and r.started < registration.time]
    if early:
        yield f"{len(early):,} of {format_count(len(records), 'run')} {BEFORE}"


def _of_looks(
    registration: Registration, experiment: Experiment, looks: Iterable[Look]
) -> Iterator[str]:
    """How many configurations that were not registered were tried on the sealed seeds."""
    sealed = {c.fingerprint for c in registration.study.configurations}
    # Changed and added configurations of the experiment itself are named already.
    present = {c.fingerprint for c in experiment.configurations}
    others = {look.configuration for look in looks if look.root == registration.root}
    if others := others - sealed - present:
        verb = "was" if len(others) == 1 else "were"
        yield f"{format_count(len(others), 'other configuration')} {verb} tried on its test seeds"
