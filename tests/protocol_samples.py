"""Registrations with made-up values, and experiments that belong to them."""

from collections.abc import Sequence
from typing import Any

from stored_runs import STARTED, Stored, configuration

from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import SeedPlan
from rlexp.records.registration import TEST, Registration, SealedStudy
from rlexp.store.layout import Layout
from rlexp.store.runs import write_experiment

SETTINGS = {
    "metrics": ["iqm", "mean"],
    "test": TEST,
    "iqm": "exact",
    "interval": "t",
    "level": 0.95,
    "alpha": 0.05,
    "margin": 20.0,
    "repetitions": 50_000,
    "seed": 0,
    "normalisation": "anchors",
}
LABELS = ("ppo", "a2c")


def registration(name: str = "duel", **values: Any) -> Registration:
    """A registration of two labels with five seeds, an hour before the runs of `stored_runs`."""
    fields: dict[str, Any] = {
        "question": "Is ppo better than a2c?",
        "configurations": tuple(map(configuration, LABELS)),
        "seeds": 5,
        "failures": "missing",
        "settings": SETTINGS,
    }
    study = SealedStudy(**{key: values.pop(key, value) for key, value in fields.items()})
    nonce: dict[str, Any] = {
        "time": STARTED - 3600.0,
        "nonce": "beacon 4000000",
        "nonce_source": "drand",
        "looks": None,
    }
    return Registration(protocol=name, study=study, **{**nonce, **values})


def registered_runs(
    layout: Layout,
    registered: Registration,
    configurations: Sequence[Configuration] = (),
    *,
    seeds: int = 5,
    root: int | None = None,
    name: str | None = None,
) -> Stored:
    """Store the finished experiment of a registration, or one that deviates from it."""
    experiment = Experiment(
        name=name or registered.protocol,
        configurations=tuple(configurations) or registered.study.configurations,
        seeds=SeedPlan(
            root=registered.root if root is None else root, tuning=0, selection=0, test=seeds
        ),
        failures="missing",
    )
    paths = layout.experiment(experiment.name)
    write_experiment(paths, experiment)
    runs = Stored(paths, experiment)
    for number, label in enumerate(dict.fromkeys(c.label for c in experiment.configurations)):
        for seed in range(seeds):
            runs.complete(seed, 100.0 + 10 * seed + 3 * number, label=label)
    return runs
