"""A small sweep, its mirror, and the study that Optuna reads from the mirror."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.pool import NullPool

from rlexp.exchange.optuna_study import (
    JOURNAL,
    Direction,
    MirroredTrial,
    OptunaStudyMirror,
    redirect_library_logs,
)
from rlexp.exchange.optuna_trials import OptunaTrialState
from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space

NAME = "ppo_cartpole"
SPACE = Space(
    parameters=(
        Parameter(key="algorithm.learning_rate", domain=Real(1e-5, 1e-1, "log")),
        Parameter(key="algorithm.n_steps", domain=Integer(16, 2048, log=True)),
        Parameter(key="agent.net_arch", domain=Choice(([64, 64], [256, 256]))),
    ),
)
STATES = {
    "running": "RUNNING",
    "complete": "COMPLETE",
    "pruned": "PRUNED",
    "failed": "FAIL",
}


def sample_trial(
    number: int, state: OptunaTrialState = "complete", **changed: Any
) -> MirroredTrial:
    """A trial with a value in every field."""
    fields = {
        "parameters": {
            "algorithm.learning_rate": 1e-4 * (number + 1),
            "algorithm.n_steps": 64,
            "agent.net_arch": [64, 64],
        },
        "values": (float(number % 5),) if state == "complete" else (),
        "intermediate": {1000: 0.5, 2000: float(number)},
        "attributes": {"seeds": [3, 4], "scores": [0.25, 0.75], "runs": ["a", "b"]},
        "started": 1_700_000_000.0 + number,
        "ended": None if state == "running" else 1_700_000_100.5 + number,
        **changed,
    }
    return MirroredTrial(number=number, state=state, **fields)


def mirror(folder: Path, url: str | None = None, **changed: Any) -> OptunaStudyMirror:
    """A mirror of the small sweep."""
    directions: tuple[Direction, ...] = ("maximize",)
    settings = {"name": NAME, "space": SPACE, "directions": directions, **changed}
    return OptunaStudyMirror(url, journal=folder / JOURNAL, **settings)


def storage(folder: Path, url: str | None = None) -> BaseStorage:
    """The storage as Optuna opens it, without a connection that stays open."""
    redirect_library_logs()
    if url is not None:
        return RDBStorage(url, engine_kwargs={"poolclass": NullPool})
    return JournalStorage(JournalFileBackend(str(folder / JOURNAL)))


def study(folder: Path, url: str | None = None) -> optuna.Study:
    """The study, as a user loads it."""
    return optuna.load_study(study_name=NAME, storage=storage(folder, url))


class Place:
    """The place of a mirrored sweep: a journal file in a folder, or a URL."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.url = url
        self.mirrors: list[OptunaStudyMirror] = []

    def mirror(self, **changed: Any) -> OptunaStudyMirror:
        """Create a mirror that is closed together with the place."""
        self.mirrors.append(mirror(self.folder, self.url, **changed))
        return self.mirrors[-1]

    def storage(self) -> BaseStorage:
        """The storage as Optuna opens it."""
        return storage(self.folder, self.url)

    def study(self) -> optuna.Study:
        """The study, as a user loads it."""
        return study(self.folder, self.url)

    def trials(self) -> list[dict[str, Any]]:
        """The trials of the study as plain data."""
        return plain_trials(self.study().trials)

    def close(self) -> None:
        """Close every mirror."""
        for each_mirror in self.mirrors:
            each_mirror.close()


def plain_trials(trials: Sequence[optuna.trial.FrozenTrial]) -> list[dict[str, Any]]:
    """The trials of a study as plain data, without their times."""
    return [
        {
            "number": trial.number,
            "state": trial.state.name,
            "values": trial.values or [],
            "params": trial.params,
            "intermediate": trial.intermediate_values,
            "attributes": trial.user_attrs,
        }
        for trial in trials
    ]


def expected(trials: Sequence[MirroredTrial]) -> list[dict[str, Any]]:
    """The expected plain data of trials whose values lie in the ranges of the space."""
    return [
        {
            "number": trial.number,
            "state": STATES[trial.state],
            "values": list(trial.values),
            "params": {
                key: json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value
                for key, value in trial.parameters.items()
            },
            "intermediate": dict(trial.intermediate),
            "attributes": dict(trial.attributes),
        }
        for trial in sorted(trials, key=lambda trial: trial.number)
    ]
