"""Trials of earlier sweeps, from which a sweep begins (`sweep.warm_start`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from rlexp.protocol.identity import canonical

BEST = 3
"""Trials of each earlier sweep that are tried first."""


@dataclass(frozen=True, slots=True)
class EarlierTrial:
    """A trial of an earlier sweep.

    Attributes:
        parameters: Values of the searched parameters.
        standing: Its place among the trials of its sweep, from 0 (worst) to 1 (best):
            (rank − 1/2) / trials. Scores of other tasks have other scales, ranks have none.
    """

    parameters: Mapping[str, Any]
    standing: float


@dataclass(frozen=True, slots=True)
class EarlierSweep:
    """What a sweep takes over from an earlier one.

    Attributes:
        name: The experiment, when it was read.
        fingerprint: Digest of its definition.
        trials: Its trials, the best first.
    """

    name: str
    fingerprint: str
    trials: tuple[EarlierTrial, ...]

    def plain(self) -> dict[str, Any]:
        """The entry in `experiment.json`."""
        trials = [{"parameters": dict(t.parameters), "standing": t.standing} for t in self.trials]
        return {"name": self.name, "fingerprint": self.fingerprint, "trials": trials}

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> Self:
        """The inverse of `plain`.

        Raises:
            KeyError: A field is missing.
        """
        trials = (EarlierTrial(t["parameters"], float(t["standing"])) for t in mapping["trials"])
        return cls(str(mapping["name"]), str(mapping["fingerprint"]), tuple(trials))


def best_of(sweeps: Iterable[EarlierSweep]) -> list[Mapping[str, Any]]:
    """The best configurations of earlier sweeps in turn, each once: every first one, then every second one."""
    ranked = [
        (rank, position, trial.parameters)
        for position, sweep in enumerate(sweeps)
        for rank, trial in enumerate(sweep.trials[:BEST])
    ]
    ranked.sort(key=lambda item: item[:2])
    return list({canonical(values): values for _, _, values in ranked}.values())
