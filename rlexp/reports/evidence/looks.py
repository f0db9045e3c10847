"""The looks that the use of the evidence of a report is."""

from collections.abc import Iterable
from math import fsum, sqrt

from rlexp.records.look import Look, SeedsOfTask
from rlexp.reports.evidence.runs import Evidence, PlannedRun


def looks_of(evidence: Evidence) -> list[Look]:
    """The looks that the use of this evidence is: one of every configuration on every task.

    Imported runs are left out, because their seeds are those of another tool.
    """
    by_configuration: dict[tuple[str, str, int], list[PlannedRun]] = {}
    for member in evidence.members:
        spec = member.record.spec
        if member.score is not None and not member.imported:
            key = spec.fingerprint, member.task, spec.root
            by_configuration.setdefault(key, []).append(member)
    return [_look(members) for members in by_configuration.values()]


def seeds_of(looks: Iterable[Look]) -> list[SeedsOfTask]:
    """The test seeds that looks use, by task and root, sorted."""
    seeds: dict[tuple[str, int], set[int]] = {}
    for look in looks:
        seeds.setdefault((look.task, look.root), set()).update(look.seeds)
    return [
        SeedsOfTask(task=task, root=root, seeds=frozenset(used))
        for (task, root), used in sorted(seeds.items())
    ]


def _look(members: list[PlannedRun]) -> Look:
    first, spec = members[0], members[0].record.spec
    # Two experiments may have made the same run: its score counts once.
    scores = {m.record.spec.seed: m.score for m in members if m.score is not None}
    values = [scores[seed] for seed in sorted(scores)]
    mean = fsum(values) / len(values)
    return Look(
        configuration=spec.fingerprint,
        task=first.task,
        root=spec.root,
        seeds=tuple(sorted(scores)),
        steps=spec.budget["steps"],
        score=spec.budget["score"],
        label=first.label,
        experiment=first.experiment,
        mean=mean,
        deviation=_deviation(values, mean),
    )


def _deviation(values: list[float], mean: float) -> float | None:
    if len(values) < 2:
        return None
    return sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
