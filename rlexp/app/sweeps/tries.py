"""Trials that the user proposes while a sweep searches (`rlexp sweep --try`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.app.sweeps.populations import refuse_tries
from rlexp.app.sweeps.request import Configurer
from rlexp.config.enqueued import tried_parameters
from rlexp.engine.sweep_source import SweepSource
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.identity import canonical
from rlexp.records.trial import TrialOrigin
from rlexp.text import format_count
from rlexp.tuners import Suggestion


def read_tries(words: Sequence[str], configurer: Configurer) -> list[Mapping[str, Any]]:
    """The parameters of the configurations of `--try`, each once.

    Raises:
        ConfigError: One is outside of the space or cannot run, or the tuner is a population.
    """
    sweep, workspace = configurer.asked, configurer.workspace
    if words:
        refuse_tries(sweep.request, sweep.experiment.default.budget.steps, workspace)
    tries = tried_parameters(sweep.request, words, workspace.allowed)
    for parameters in tries:
        _, refused = configurer.configure(1, parameters, None)
        if refused:
            raise ConfigError(f"--try: {refused}", key="--try")
    return list({canonical(parameters): parameters for parameters in tries}.values())


def new_tries(tries: Sequence[Mapping[str, Any]], sweeping: SweepSource) -> list[Suggestion]:
    """The configurations that are no trials of the sweep yet.

    The same command again therefore adds nothing, also after a kill between two of them.

    Args:
        tries: The parameters.
        sweeping: The sweep as its folder holds it.

    Raises:
        RecordError: The sweep has chosen its winner.
        ConfigError: The sweep may make no further trial.
    """
    search = sweeping.search
    given = [search.question.default, *(s.parameters for s in search.question.given)]
    begun = [entry.proposal.parameters for entry in search.entries]
    there = {canonical(parameters) for parameters in (*given, *begun)}
    new = [values for values in tries if canonical(values) not in there]
    if not new:
        return []
    if sweeping.selection is not None:
        raise RecordError(
            "--try: the sweep has chosen its winner, so that a further trial could not win: begin "
            "another sweep with experiment=NAME and another seeds.root"
        )
    count = max(len(search.entries), len(given)) + len(new)
    if count > search.question.plan.trials:
        raise ConfigError(
            f"--try: {format_count(len(new), 'further trial')} would be more than "
            f"sweep.trials={search.question.plan.trials}: add sweep.trials={count} or more",
            key="--try",
        )
    if search.entries and search.is_full(sweeping.hours()):
        raise ConfigError(
            "--try: the budget of the search is spent: raise its limit (sweep.full_runs, sweep.steps or "
            "sweep.hours)",
            key="--try",
        )
    return [Suggestion(values, origin=TrialOrigin.TRIED) for values in new]


def enter(suggestions: Sequence[Suggestion], sweeping: SweepSource) -> None:
    """Enter configurations as the next trials; the caller holds the lock of the sweep."""
    for suggestion in suggestions:
        sweeping.enter(suggestion)
