"""How a sweep was to search: its plan, and its whole space."""

import json
from collections.abc import Iterator

from rlexp.reports.analysis.sweep_tables import (
    OBJECTIVES,
    range_in_words,
    shown,
    suffix,
    titled,
    value_of,
)
from rlexp.reports.drawing.blocks import Block, Column, Listing, Table, Value
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.reports.sentences import counted, listed, numbers
from rlexp.reports.tuning_answers import budget_in_words, tuner_in_words

ALLOCATIONS = {
    "two_stage": "each configuration on one tuning seed, the best {share} of them on all",
    "fixed": "each configuration on all tuning seeds",
    "racing": "each configuration on one tuning seed after the other, until Wilcoxon's test finds "
    "it worse than the best",
}
FAILURES = {
    "worst": "a failed trial is worse than every other to the tuner, and cannot win",
    "exclude": "the tuner does not hear of failed trials, and they cannot win",
}


def search_protocol(own: SweepEvidence, evidence: Evidence) -> Iterator[Block]:
    """The search as it was declared, then its space: in words, and verbatim."""
    yield Table(
        name=f"search{suffix(own, evidence)}",
        title=titled("Search", own, evidence),
        columns=(Column(title="what"), Column(title="how")),
        rows=tuple(_declared(own)),
        note="As declared before the first trial, but for what was spent.",
    )
    yield Table(
        name=f"ranges{suffix(own, evidence)}",
        title=titled("Search space", own, evidence),
        columns=tuple(Column(title=t) for t in ("parameter", "values", "only where", "default")),
        rows=tuple(_ranges(own)),
    )
    yield Listing(
        name=f"space{suffix(own, evidence)}",
        title=titled("Search space, verbatim", own, evidence),
        text="\n".join(json.dumps(one, ensure_ascii=False) for one in own.sweep.space.plain()),
    )


def _declared(own: SweepEvidence) -> Iterator[tuple[Value, ...]]:
    plan = own.sweep.plan
    share = f"{100 * plan.promoted:.3g} %"
    yield "tuner and pruner", tuner_in_words(own)
    yield "objective", listed(OBJECTIVES[name] for name in plan.objectives)
    yield "aggregate over tuning seeds", plan.aggregate
    yield "budget", budget_in_words(own)
    yield "seeds of a configuration", ALLOCATIONS[plan.allocation].format(share=share)
    yield "tuning seeds", _seeds(own.tuning_seeds)
    yield "selection seeds", _seeds(own.selection_seeds)
    again = f"{plan.finalists} at most, scored again on the selection seeds"
    yield "finalists", again if own.selection_seeds else "the best trial wins, without selection"
    yield "failures", FAILURES[plan.failures]
    if plan.lag is not None:
        yield "lag", f"a trial is suggested without the {counted(plan.lag, 'trial')} before it"


def _ranges(own: SweepEvidence) -> Iterator[tuple[Value, ...]]:
    default = own.default
    for parameter in own.sweep.space.parameters:
        conditions = [
            f"{key} is {' or '.join(map(shown, values))}" for key, values in parameter.when.items()
        ]
        yield (
            parameter.key,
            range_in_words(parameter.domain),
            " and ".join(conditions) or None,
            value_of(parameter, default),
        )


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"{numbers(seeds)} ({len(seeds)})" if seeds else "none"
