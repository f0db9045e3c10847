"""The origin of an experiment that was made from a trial of a sweep."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The trial of a sweep from which an experiment was made. It is recorded, and never hashed.

    Attributes:
        sweep: The name of the sweep.
        trial: The number of the trial.
        winner: Whether the sweep had selected this trial.
        selection: The sha256 of `selection.json`; null if the sweep had not selected a winner.
        fingerprint: The identity of the configuration of the trial.
        changes: The overrides that changed the configuration of the trial.
    """

    sweep: str
    trial: int
    winner: bool
    selection: str | None
    fingerprint: str
    changes: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The object `origin` in `experiment.json`."""
        return {**asdict(self), "changes": list(self.changes)}

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> "Origin":
        """The origin of a mapping of JSON values; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: A field has another type.
        """
        selection = mapping["selection"]
        for key, kind in (("sweep", str), ("trial", int), ("fingerprint", str), ("changes", list)):
            if not isinstance(mapping[key], kind):
                raise TypeError(f"origin.{key} is {mapping[key]!r}")
        return cls(
            sweep=mapping["sweep"],
            trial=mapping["trial"],
            winner=bool(mapping["winner"]),
            selection=None if selection is None else str(selection),
            fingerprint=mapping["fingerprint"],
            changes=tuple(map(str, mapping["changes"])),
        )

    def __str__(self) -> str:
        """The origin in words (`trial 5 of quick, its winner, with algorithm.gamma=0.9`)."""
        role = ", its winner" if self.winner else ""
        changes = f", with {' '.join(self.changes)}" if self.changes else ""
        return f"trial {self.trial} of {self.sweep}{role}{changes}"
