"""Finds the runs of an ensemble: the completed test runs of one configuration."""

import shlex
from dataclasses import dataclass

from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.run import State
from rlexp.store.layout import RunPaths
from rlexp.store.runs import read_experiment, read_run
from rlexp.text import format_count, join_first_names


@dataclass(frozen=True, slots=True)
class EnsembleMembers:
    """The runs of an ensemble, in the order of their seeds, and the name of their experiment."""

    name: str
    runs: list[RunPaths]


def members_of(name: str, workspace: Workspace) -> EnsembleMembers:
    """The completed test runs of an experiment with one configuration.

    Raises:
        RecordError: The name is that of a run, the experiment has several configurations, or fewer
            than two of its test runs are completed.
    """
    match = workspace.find(name)
    if isinstance(match, RunPaths):
        experiment = match.folder.parent.name
        raise RecordError(
            f"{name} is one run, and an ensemble needs several: rlexp evaluate {experiment} --ensemble"
        )
    definition = read_experiment(match)
    if len(definition.configurations) > 1:
        labels = [f"{c.label} on {c.task}" for c in definition.configurations]
        raise RecordError(
            f"{match.name} has {len(labels)} configurations ({join_first_names(labels)}), and an "
            "ensemble is made of runs of one: give each an experiment of its own"
        )
    records = [(read_run(run).record, run) for run in match.runs()]
    tests = [(record, run) for record, run in records if record.spec.phase is Phase.TEST]
    completed = [(r.spec.seed, run) for r, run in tests if r.state is State.COMPLETED]
    if len(completed) < 2:
        planned = sum(1 for _ in definition.specs(Phase.TEST))
        unfinished = planned > len(tests) or any(record.may_run() for record, _ in tests)
        # `rlexp show` names the command that adds seeds, or that repeats failed runs.
        command = shlex.join(["rlexp", "resume" if unfinished else "show", match.name])
        why = "to continue its runs" if unfinished else "to see how to add runs"
        raise RecordError(
            f"{match.name} has {format_count(len(completed), 'completed test run')}, and an ensemble "
            f"needs two; {why}: {command}"
        )
    return EnsembleMembers(match.name, [run for _, run in sorted(completed, key=lambda p: p[0])])
