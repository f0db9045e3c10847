"""Joins words of tests: a later value of a key takes the place of an earlier one."""

from collections.abc import Sequence

from in_full import IN_FULL

FEW_TRIALS = ("seeds.tuning=1", "seeds.selection=1", "sweep.trials=2", "sweep.finalists=1")
"""Words of a sweep with all its phases and as few runs as possible."""


def last_words(*words: str) -> list[str]:
    """The words without those whose key has a later value, because commands refuse two values."""
    last = {word.partition("=")[0]: position for position, word in enumerate(words)}
    kept = sorted(last.values())
    return [word for n, word in enumerate(words) if n in kept or "=" not in word]


def with_few_trials(words: Sequence[str]) -> Sequence[str]:
    """The words of a command; in the ordinary suite, a sweep that trains has few trials."""
    if words[0] != "sweep" or "--dry-run" in words or IN_FULL:
        return words
    return last_words(*words, *FEW_TRIALS)
