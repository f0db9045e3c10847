"""The permission to import what the candidates of a stream that are trained or scored need."""

from collections.abc import Sequence

from rlexp.app.execution.checks.import_permission import check_imports, permission_for
from rlexp.app.workspace import Workspace
from rlexp.protocol.experiment import Configuration
from rlexp.records.selection import DEFAULT
from rlexp.records.stream import StreamRegister
from rlexp.store.layout import ExperimentPaths
from rlexp.store.sweeps import read_trials


def check_permission(
    paths: ExperimentPaths,
    register: StreamRegister,
    workspace: Workspace,
    command: Sequence[str],
) -> None:
    """Refuse to go on without the permission that the next trainings and scores need.

    Without this check every run would fail, and a failed run loses its seed for good.

    Raises:
        RecordError: Names the packages, and the command that allows them.
    """
    # The files of the environment's modules are compared with those that the stream has frozen.
    frozen = () if register.beginning is None else register.beginning.modules
    check_imports(_in_use(paths, register), (*workspace.allowed, *frozen), command)


def permission_of_stream(
    paths: ExperimentPaths, register: StreamRegister, workspace: Workspace
) -> list[str]:
    """The options that a command of the stream needs, and what is allowed now."""
    return permission_for(_in_use(paths, register), workspace.allowed)


def _in_use(paths: ExperimentPaths, register: StreamRegister) -> list[Configuration]:
    """The configurations of the first champion, the champion and the open candidate."""
    numbers = {DEFAULT, register.champion}
    if register.open is not None:
        numbers.add(register.open.number)
    trials = {trial.number: trial.configuration for trial in read_trials(paths)}
    return [made for number in sorted(numbers) if (made := trials.get(number)) is not None]
