"""The tasks of rlexp that entries of rl-baselines3-zoo's files stand for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

ATARI = "atari"
"""The entry for all games of the Arcade Learning Environment."""
OF_ATARI = "ALE/"
"""The beginning of the ids of these games."""
BROUGHT_BY_ATARI = ("env_wrapper", "frame_stack")
"""Settings of the entry that rlexp's Atari tasks replace by their preprocessing."""
VERSIONED = re.compile(r"(.+)-v(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class MatchedTasks:
    """The tasks that one entry stands for.

    Attributes:
        tasks: Options of `environment`, or the entry's name where no option fits.
        note: What differs from the zoo; None if nothing does.
    """

    tasks: tuple[str, ...]
    note: str | None = None


def match_tasks(name: str, options: Mapping[str, str]) -> MatchedTasks:
    """The tasks that an entry stands for.

    Args:
        name: The name of the entry: the id of an environment, or `atari`.
        options: The option of `environment` for each id.
    """
    if name in options:
        return MatchedTasks((options[name],))
    if name == ATARI:
        return _atari(options)
    versions = _other_versions(name, options)
    if not versions:
        return MatchedTasks((name,))
    newest = versions[max(versions)]
    return MatchedTasks((options[newest],), f"{name} is {newest} here")


def _atari(options: Mapping[str, str]) -> MatchedTasks:
    games = tuple(option for name, option in options.items() if name.startswith(OF_ATARI))
    brought = " and ".join(BROUGHT_BY_ATARI)
    return MatchedTasks(games, f"{ATARI} is {len(games)} tasks here, which bring {brought}")


def _other_versions(name: str, options: Mapping[str, str]) -> dict[int, str]:
    """The ids that differ from a name in their version only, by version."""
    parts = VERSIONED.fullmatch(name)
    if parts is None:
        return {}
    matches = {other: VERSIONED.fullmatch(other) for other in options}
    return {int(m[2]): other for other, m in matches.items() if m and m[1] == parts[1]}
