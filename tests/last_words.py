"""Joins words of tests: a later value of a key takes the place of an earlier one."""


def last_words(*words: str) -> list[str]:
    """The words without those whose key has a later value, because commands refuse two values."""
    last = {word.partition("=")[0]: position for position, word in enumerate(words)}
    kept = sorted(last.values())
    return [word for n, word in enumerate(words) if n in kept or "=" not in word]
