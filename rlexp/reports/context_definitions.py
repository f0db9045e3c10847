"""Definitions of what a report says of contexts, of what was held out, and of other measures."""

from collections.abc import Iterator

from rlexp.reports.analysis.held_out_episodes import has_contexts, has_measures, is_examined
from rlexp.reports.analysis.inquiry import Inquiry

Definition = tuple[str, str, str]


def _defined(name: str, words: str, source: str) -> Definition:
    return name, words, source


GAP = _defined(
    "generalisation gap",
    "Mean return of the final policy on contexts that training had, minus that on those held out; "
    "of each run, then the mean over runs.",
    "Kirk et al. 2023, A Survey of Zero-shot Generalisation in Deep Reinforcement Learning",
)
OF_CONTEXTS = (
    _defined(
        "worst case",
        "The least of a run's mean returns by context, as a mean over runs: over the uncertainty "
        "set which the contexts stand for.",
        "Morimoto and Doya 2005, Robust Reinforcement Learning",
    ),
    _defined(
        "CVaR",
        "Mean of the worst share α of a run's mean returns by context, all contexts weighing "
        "the same and the last one counting in part; as a mean over runs.",
        "Rockafellar and Uryasev 2000, Optimization of Conditional Value-at-Risk; of discrete "
        "distributions 2002, Conditional Value-at-Risk for General Loss Distributions",
    ),
    _defined(
        "mastered",
        "The share of the contexts whose mean return reaches a threshold, as a mean over runs.",
        "Romac et al. 2021, TeachMyAgent: a Benchmark for Automatic Curriculum Learning in Deep RL",
    ),
)
MEASURE = _defined(
    "measure of episodes",
    "Mean over the episodes of a run's final evaluation, then over runs.",
    "rlexp",
)


def context_definitions(inquiry: Inquiry) -> Iterator[Definition]:
    """Those that a report needs."""
    evidence, sections = inquiry.evidence, inquiry.sections
    if "generalisation" in sections:
        yield from (GAP,) if is_examined(evidence) else ()
        yield from OF_CONTEXTS if has_contexts(evidence) else ()
    if "measures" in sections and has_measures(evidence):
        yield MEASURE
