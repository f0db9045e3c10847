"""The answer of an ablation on one line: what did it."""

from collections.abc import Sequence

from rlexp.metrics.estimate_text import decimals_of_width, possible, with_ends
from rlexp.reports.analysis.ablation_effects import AblationEffects, ChangeEffects, Effect
from rlexp.reports.drawing.blocks import Tone
from rlexp.stats.interval import Interval
from rlexp.text import format_count, format_percentage, join_names

MOST_NAMED = 3
"""Most changes that the answer names one by one."""


def ablation_answer(effects: AblationEffects) -> tuple[Tone, str]:
    """Whether the question is decided, and the answer as a sentence.

    A change did it if the second configuration is worse without it, or, on a path, if its step is
    better than the step before. Changes that only help alone are named after those.
    """
    if effects.total.difference is None:
        return Tone.NOTE, "What did it is open: no interim analysis has been made yet."
    helpful = _ordered(effects, "better")
    harmful = _ordered(effects, "worse")
    sentences = [_head(effects, helpful), *_harm(effects, harmful), *_alone(effects, helpful)]
    if not effects.finished:
        sentences.append(f"{_open(effects)} still undecided.")
    settled = bool(helpful or harmful) and effects.finished
    return (Tone.GOOD if settled else Tone.NOTE), " ".join(sentences)


def ablation_basis(effects: AblationEffects) -> str:
    """What the answer rests on, as sentences: the test, the measure, and the intervals."""
    contrasts = format_count(effects.contrasts, "comparison")
    where = "" if effects.contrasts == 1 else f" in any of {contrasts}"
    looks = f"{effects.looks} of " if effects.looks else ""
    return (
        f"Sequential permutation tests on fresh test seeds, {effects.group} of each label at each of "
        f"{looks}at most {effects.interims} interim analyses; an error{where} has a "
        f"probability of at most {format_percentage(effects.alpha)} "
        f"({effects.family}).{_measure(effects)}"
    )


def _measure(effects: AblationEffects) -> str:
    """What the effects measure, from how many runs, and the method of their intervals."""
    differences = [e.difference for e in effects.effects if e.difference is not None]
    if not differences:
        return ""
    runs = _span([str(n) for n in sorted({d.n for d in differences})])
    text = f" Effects are differences of mean scores (n = {runs} runs of both sides"
    shown = [d for d in differences if possible(d)]
    if not shown:
        return f"{text}), without intervals."
    levels = _span([format_percentage(level) for level in sorted({d.level for d in shown})])
    seed, method = shown[0].seed, shown[0].method
    return f"{text}) with {levels} intervals ({method}, seed {seed}).{_jointly(effects)}"


def _span(values: Sequence[str]) -> str:
    """The first and the last of sorted values, or the only one."""
    return " to ".join(dict.fromkeys((values[0], values[-1])))


def _jointly(effects: AblationEffects) -> str:
    """That all intervals together hold less often, where their levels follow the decisions."""
    if effects.contrasts == 1 or effects.family == "bonferroni":
        return ""
    together = format_percentage(1 - effects.alpha)
    return (
        f" Each interval has its level alone; all of them together may hold in slightly less than "
        f"{together} of ablations."
    )


def amount(difference: Interval) -> str:
    """The size of a difference, without its sign, with its interval."""
    if difference.estimate >= 0:
        return signed(difference)
    low, high = difference.low, difference.high
    mirrored = Interval(
        estimate=-difference.estimate,
        low=None if high is None else -high,
        high=None if low is None else -low,
        level=difference.level,
        method=difference.method,
        repetitions=difference.repetitions,
        n=difference.n,
        seed=difference.seed,
        reason=difference.reason,
    )
    return signed(mirrored)


def signed(difference: Interval) -> str:
    """A difference with its interval, with as many digits as the interval distinguishes."""
    return with_ends(difference, decimals_of_width(difference))


def _ordered(effects: AblationEffects, decision: str) -> list[ChangeEffects]:
    """The changes whose main effect has this decision, the largest effect first."""
    decided = [c for c in effects.changes if c.main is not None and c.main.decision == decision]
    return sorted(decided, key=lambda c: -abs(c.main.estimate if c.main else 0.0))


def _head(effects: AblationEffects, helpful: Sequence[ChangeEffects]) -> str:
    if helpful:
        return _did_it(effects, helpful)
    total = effects.total
    assert total.difference is not None
    if total.decision == "better":
        subject = "commit" if effects.kind == "commits" else "change"
        return (
            f"No single {subject} was found to have done it: the mean score of {total.first} is "
            f"better than that of {total.second} by {amount(total.difference)}, and it needs none of "
            "them alone."
        )
    if total.decision == "worse":
        return (
            f"The mean score of {total.first} is worse than that of {total.second} by "
            f"{amount(total.difference)}, and no single change was found to help."
        )
    return (
        f"No effect was found: the mean score of {total.first} differs from that of "
        f"{total.second} by {signed(total.difference)}, which is undecided."
    )


def _did_it(effects: AblationEffects, helpful: Sequence[ChangeEffects]) -> str:
    named = [c.name for c in helpful[:MOST_NAMED]]
    if len(helpful) > MOST_NAMED:
        named.append(format_count(len(helpful) - MOST_NAMED, "more change"))
    first, *others = helpful
    facts = [_fact(effects, first), *(_fact(effects, c) for c in others[: MOST_NAMED - 1])]
    return f"{join_names(named)} did it: {'; '.join(facts)}."


def _fact(effects: AblationEffects, change: ChangeEffects) -> str:
    effect = change.main
    assert effect is not None
    assert effect.difference is not None
    # The subject of a commit is named once.
    name = change.name.partition(" ")[0] if effects.kind == "commits" else change.name
    it = name if len(effects.changes) > 1 else "it"
    if effect is change.left_out:
        return f"without {it} the mean score {_moves(effect, back=True)} by {amount(effect.difference)}"
    return f"with {it} the mean score {_moves(effect)} by {amount(effect.difference)}"


def _moves(effect: Effect, *, back: bool = False) -> str:
    """`rises` or `falls`, for the change or for taking it back."""
    return "rises" if (effect.estimate > 0) != back else "falls"


def _harm(effects: AblationEffects, harmful: Sequence[ChangeEffects]) -> list[str]:
    return [f"{change.name} harms: {_fact(effects, change)}." for change in harmful[:MOST_NAMED]]


def _alone(effects: AblationEffects, helpful: Sequence[ChangeEffects]) -> list[str]:
    """Changes that the second configuration does not need, but that help the first one alone."""
    return [
        f"Alone, {change.name} helps too: with it {change.added.second} "
        f"{_moves(change.added)} by {amount(change.added.difference)}."
        for change in effects.changes
        if change not in helpful
        and change.added is not None
        and change.added is not change.main
        and change.added.decision == "better"
        and change.added.difference is not None
    ][:MOST_NAMED]


def _open(effects: AblationEffects) -> str:
    distinct = {(e.first, e.second): e for e in effects.effects}
    count = sum(e.decision == "continue" for e in distinct.values())
    return f"{format_count(count, 'comparison')} {'is' if count == 1 else 'are'}"
