"""What is known of a filmed episode: the policy that played it, and its return."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmRecord:
    """The description of a video file.

    Attributes:
        sum: The sha256 of the video file.
        weights: The digest of the weights of the policy; None if it is not recorded.
        step: Environment steps of training before the policy was saved.
        checkpoint: Whether the policy comes from a checkpoint; false for the final policy.
        draw: Number of the set of fresh seeds.
        episode: Number of the episode in the set.
        deterministic: Whether actions were deterministic.
        episode_return: The undiscounted return of the episode, in the task's own reward.
        length: The length of the episode, in environment steps.
    """

    sum: str
    weights: str | None
    step: int
    checkpoint: bool
    draw: int
    episode: int
    deterministic: bool
    episode_return: float
    length: int

    def plain(self) -> dict[str, Any]:
        """The description as JSON values."""
        return asdict(self)

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> "FilmRecord":
        """The description from JSON values.

        Raises:
            ValueError: A value is missing or has another type.
        """
        try:
            film = cls(**{name: document[name] for name in cls.__slots__})
        except KeyError as error:
            raise ValueError(f"{error} is missing") from error
        numbers = (film.step, film.draw, film.episode, film.length)
        switches = (film.checkpoint, film.deterministic)
        is_valid = (
            isinstance(film.sum, str)
            and isinstance(film.weights, str | None)
            and all(type(number) is int and number >= 0 for number in numbers)
            and all(isinstance(switch, bool) for switch in switches)
            and isinstance(film.episode_return, int | float)
            and math.isfinite(film.episode_return)
        )
        if not is_valid:
            raise ValueError(f"{document!r} describes no film")
        return film
