"""Enters looks at test scores in the register of the workspace, and counts them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rlexp.errors import RlexpError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.look import (
    CountedLooks,
    Look,
    LookRegister,
    SeedsOfTask,
    TaskLooks,
    looks_by_configuration,
)
from rlexp.reports.evidence.looks import looks_of, seeds_of
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.layout import Layout
from rlexp.store.registers.looks import enter_looks, read_looks
from rlexp.text import format_count, join_names


def with_looks(evidence: Evidence, layout: Layout, *, enter: bool) -> Evidence:
    """The evidence with the looks at its test seeds.

    A register that cannot be read or written is a problem that the evidence names. It never keeps
    scores from being shown.

    Args:
        evidence: The evidence.
        layout: The folder `runs/`.
        enter: Whether to enter the looks of this evidence; otherwise they are only counted.
    """
    looks = looks_of(evidence) if evidence.phase is Phase.TEST else []
    if not looks:
        return evidence
    problems = [*_enter(layout, looks)] if enter else []
    seeds = seeds_of(looks)
    register, unreadable = _read(layout, seeds)
    return replace(
        evidence,
        looks=CountedLooks(
            tasks=tuple(
                TaskLooks(seeds=s, looks=looks_by_configuration([*register.looks, *looks], s))
                for s in seeds
            ),
            problems=(*unreadable, *_changed(register), *problems),
            register=register.sha256,
        ),
    )


def advice_on_looks(
    missing: Sequence[RunSpec], tasks: Mapping[str, str], layout: Layout
) -> str | None:
    """What a plan recommends where its test seeds have been looked at with other configurations.

    Args:
        missing: The planned runs.
        tasks: The task of each configuration by its fingerprint.
        layout: The folder `runs/`.

    Returns:
        None for the first configurations on these seeds, for configurations that were looked at
        already, and for other phases than the test.
    """
    test = [spec for spec in missing if spec.phase is Phase.TEST and spec.fingerprint in tasks]
    planned: dict[tuple[str, int], set[int]] = {}
    for spec in test:
        planned.setdefault((tasks[spec.fingerprint], spec.root), set()).add(spec.seed)
    seeds = [
        SeedsOfTask(task=task, root=root, seeds=frozenset(used))
        for (task, root), used in sorted(planned.items())
    ]
    register, _ = _read(layout, seeds)
    counts = {}
    for s in seeds:
        looked = {look.configuration for look in looks_by_configuration(register.looks, s)}
        if {spec.fingerprint for spec in test if tasks[spec.fingerprint] == s.task} - looked:
            counts[s.task] = len(looked)
    return _advice({task: n for task, n in counts.items() if n}, register)


def _advice(counts: Mapping[str, int], register: LookRegister) -> str | None:
    if not counts:
        return None
    most = max(counts.values())
    verb = "has" if most == 1 else "have"
    tasks = join_names([task for task, count in counts.items() if count == most][:3])
    fresh = next(n for n in range(len(register.looks) + 1) if n not in _roots(register.looks))
    return (
        f"{format_count(most, 'configuration')} {verb} been tried on these test seeds of "
        f"{tasks}: while you are still trying, use phase=tuning; seeds.root={fresh} gives fresh "
        "test seeds"
    )


def _roots(looks: Iterable[Look]) -> set[int]:
    return {look.root for look in looks}


def _enter(layout: Layout, looks: Sequence[Look]) -> Iterator[str]:
    """Enter looks; yields the reason where they cannot be entered."""
    try:
        enter_looks(layout, looks)
    except (OSError, RlexpError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        yield (
            f"the register of looks cannot be written, so that these looks count in this command "
            f"only: {reason}"
        )


def _read(layout: Layout, seeds: Sequence[SeedsOfTask]) -> tuple[LookRegister, tuple[str, ...]]:
    try:
        return read_looks(layout, {s.task for s in seeds}), ()
    except RlexpError as error:
        return LookRegister(), (f"the register of looks cannot be read: {error}",)


def _changed(register: LookRegister) -> Iterator[str]:
    if register.breaks:
        yield (
            f"the register of looks was changed, so that this count may be wrong "
            f"({register.breaks[0]}); 'rlexp verify' names every place"
        )
