"""The searched hyperparameters of the trials of a sweep, as text for listings."""

from collections.abc import Mapping
from typing import Any

from rlexp.errors import RecordError
from rlexp.protocol.value_schedule import whole_values
from rlexp.records.selection import DEFAULT, TUNED
from rlexp.store.layout import ExperimentPaths
from rlexp.store.sweeps import DEFAULT_LABEL, StoredTrial, read_selection, read_trials
from rlexp.text import format_parameters


def parameters_by_label(paths: ExperimentPaths) -> Mapping[str, str]:
    """The hyperparameters of each label of a sweep; empty for any other experiment.

    They are empty as well where the files of the sweep are damaged, which listings report as a
    problem of the folder.
    """
    try:
        trials, selection = read_trials(paths), read_selection(paths)
    except RecordError:
        return {}
    numbers = {t.configuration.label: t.number for t in trials if t.configuration is not None}
    if trials:
        numbers[DEFAULT_LABEL] = DEFAULT
    if selection is not None and selection.winner < len(trials):
        numbers[TUNED] = selection.winner
        numbers |= {selection.label(n): n for n in selection.further if n < len(trials)}
    return {label: format_parameters(_values(trials[n])) for label, n in numbers.items()}


def _values(trial: StoredTrial) -> Mapping[str, Any]:
    """The searched values of a trial, with the schedules of a population."""
    if trial.configuration is None:
        return trial.parameters
    return whole_values(trial.configuration.parts(), trial.parameters)
