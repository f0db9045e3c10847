"""What an experiment's records say: one plain structure, which the console and `--json` show."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rlexp.app.catalogue import catalogue_of
from rlexp.app.collector import collector_paused
from rlexp.app.history import describe_past
from rlexp.app.leading import Leading
from rlexp.errors import RecordError
from rlexp.metrics.estimate import Estimate
from rlexp.metrics.estimate_words import sentence
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records import scores
from rlexp.records.run import RunRecord, State
from rlexp.reports.past import Past
from rlexp.store.catalogue import Catalogue
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import StoredRun, read_run

Entry = tuple[Configuration, StoredRun]
"""A run as its folder tells it, and the configuration that it belongs to."""


@collector_paused()
def read_entries(
    paths: ExperimentPaths,
    experiment: Experiment,
    phase: Phase,
) -> list[Entry]:
    """Every run that the experiment asks for in a phase, as its folder tells it.

    Those that are over are told in brief, which the experiment's catalogue has.
    """
    catalogue = catalogue_of(paths)
    entries = [
        (configuration, _read(paths.run(spec.name), spec, catalogue))
        for configuration, spec in experiment.specs(phase)
    ]
    catalogue.save(complete=False)
    return entries


def _read(run: RunPaths, spec: RunSpec, catalogue: Catalogue) -> StoredRun:
    if not os.path.lexists(run.folder):
        return StoredRun(run, RunRecord(spec=spec))
    with suppress(RecordError):
        stored = catalogue.look(run, read_run, spec)
        if stored.record.spec.id == spec.id:
            return stored
    # What lies there is damaged, or another run's: what is asked for is what its folder's name says.
    return read_run(run, spec)


def summarise(
    paths: ExperimentPaths,
    experiment: Experiment,
    phase: Phase,
    entries: Sequence[Entry],
    leading: Leading,
) -> dict[str, Any]:
    """Scores, intervals, and everything that is failed or missing.

    Args:
        paths: The experiment's folder.
        experiment: Its definition.
        phase: Whose runs.
        entries: These runs.
        leading: The aggregate, and how its interval is made.
    """
    table = scores.ScoreTable.from_records(
        (scores.Entry(c.label, c.task, stored.record) for c, stored in entries),
        phase,
    )
    configurations = experiment.configurations
    own: dict[int, list[RunRecord]] = {}
    for configuration, stored in entries:
        own.setdefault(id(configuration), []).append(stored.record)
    return {
        "experiment": experiment.name,
        "phase": str(phase),
        "folder": str(paths.folder),
        "failures": experiment.failures,
        "past": Past.of(stored.record for _, stored in entries).plain(),
        "cells": [
            _cell(c, table, own.get(id(c), []), experiment, leading) for c in configurations
        ],
        "runs": [describe_run(c, stored) for c, stored in entries],
    }


def describe_run(configuration: Configuration, stored: StoredRun) -> dict[str, Any]:
    """One run in a few values."""
    record = stored.record
    return {
        "run": stored.paths.folder.name,
        "label": configuration.label,
        "task": configuration.task,
        "seed": record.spec.seed,
        "state": str(record.state),
        "score": record.score,
        "step": record.step,
        "steps": record.spec.budget["steps"],
        "seconds": record.seconds,
        "seconds_spent": record.seconds_spent,
        "attempts": record.attempts,
        **describe_past(record),
        "failure": record.failure,
        "reason": record.reason,
        "unreadable_lines": stored.torn + stored.quarantined,
    }


def worst_scores(
    configuration: Configuration, experiment: Experiment, scoreless: int
) -> list[float]:
    """What so many runs without a score count as: the declared minimum each, or nothing."""
    minimum = configuration.reference.get("minimum")
    return [minimum] * scoreless if experiment.failures == "worst" and minimum is not None else []


def _cell(
    configuration: Configuration,
    table: scores.ScoreTable,
    own: Sequence[RunRecord],
    experiment: Experiment,
    leading: Leading,
) -> dict[str, Any]:
    found = table.cells.get((configuration.label, configuration.task), {})
    by_seed = {seed: score for (_, seed), score in found.items()}
    failed = [r for r in own if r.state is State.FAILED]
    worst = worst_scores(configuration, experiment, sum(r.scoreless for r in own))
    values = [*by_seed.values(), *worst]
    return {
        "label": configuration.label,
        "task": configuration.task,
        "score": configuration.budget.score,
        "scores": by_seed,
        "threshold": configuration.reference.get("threshold"),
        "planned": len(own),
        "n": len(values),
        "counted_as_worst": len(worst),
        "failed": len(failed),
        "missing": len(own) - len(by_seed) - len(failed),
        **_plain_estimate(leading, leading.estimate(values, configuration.reference)),
    }


def _plain_estimate(leading: Leading, found: Estimate | None) -> dict[str, Any]:
    """The leading aggregate as JSON has it, and on one line for people."""
    return {
        "metric": leading.name,
        "title": leading.title,
        "estimate": None if found is None else asdict(found),
        "in_words": f"{leading.title} —, no run has a score"
        if found is None
        else sentence(leading.title, found),
    }
