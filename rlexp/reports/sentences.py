"""Numbers of things, and lists of names, in a sentence."""

from collections.abc import Iterable, Sequence


def counted(number: int, thing: str) -> str:
    """A number of things (`1 run`, `3,000 runs`)."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence (`a, b and c`), in the order given."""
    own = list(names)
    return " and ".join([", ".join(own[:-1]), own[-1]]) if len(own) > 1 else "".join(own)


def shortened(names: Sequence[str], most: int = 10) -> str:
    """Names in a sentence, and how many more there are (`a, b and 7 more`)."""
    if len(names) <= most:
        return listed(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def numbers(values: Iterable[int]) -> str:
    """Whole numbers, successive ones by their ends (`0–4, 7`)."""
    told: list[list[int]] = []
    for value in sorted(set(values)):
        if told and value == told[-1][-1] + 1:
            told[-1] = [told[-1][0], value]
        else:
            told.append([value])
    return ", ".join("–".join(map(str, ends)) for ends in told)
