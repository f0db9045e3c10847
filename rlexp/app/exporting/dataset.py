"""Exports the policies of completed runs as a Minari dataset of their episodes."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from rlexp.app.evaluation.dataset_recording import RecordedPolicy, record_dataset
from rlexp.app.evaluation.playback import (
    environment_errors,
    find_policies,
    is_lean,
    restore_policy,
)
from rlexp.app.exporting.output import (
    ExportedFiles,
    ExportRequest,
    ExportTarget,
    evidence_of,
    exported_runs,
    run_remarks,
)
from rlexp.app.observer import Observer
from rlexp.app.workspace import Workspace
from rlexp.datasets.writing import new_folder
from rlexp.errors import ConfigError
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.layout import RunPaths
from rlexp.text import format_count, format_score, join_names

if TYPE_CHECKING:
    from rlexp.training.evaluate import Episodes

OPTION = "--output"
"""The option that gives the id of the dataset."""
EPISODES = 100
"""Episodes of each policy, unless the request gives their number."""


def export_minari(
    request: ExportRequest, workspace: Workspace, observer: Observer
) -> ExportedFiles:
    """Play episodes with the policies of all completed runs, and write them as one dataset.

    Raises:
        RlexpError: The id, a run, its task or a package cannot be used; nothing was written.
    """
    name, episodes = _id(request), EPISODES if request.episodes is None else request.episodes
    if episodes < 1:
        raise ConfigError(
            f"--episodes={episodes} is too small: give 1 or more",
            code="out_of_range",
            key="--episodes",
            allowed=["1 or more"],
        )
    folder = new_folder(name, OPTION)
    evidence = evidence_of(request, workspace)
    _check_one_task(evidence)
    runs = _completed(evidence, workspace)
    # An environment that prints must not corrupt the JSON document on standard output.
    with redirect_stdout(sys.stderr), environment_errors():
        policies = _restored(runs, request, workspace)
        played = record_dataset(name, policies, episodes, observer, option=OPTION)
    outcome = exported_runs(
        evidence,
        request,
        ExportTarget(folder, force=False),
        *run_remarks(evidence),
        _described(played, request),
        f"A run starts from it with: dataset=minari dataset.id={name}",
    )
    return replace(
        outcome,
        files=tuple(sorted(path for path in folder.rglob("*") if path.is_file())),
        rows={
            "episodes": sum(len(each.returns) for each in played),
            "steps": sum(sum(each.lengths) for each in played),
        },
        mean_return=_mean(played),
    )


def _id(request: ExportRequest) -> str:
    """The id of the dataset.

    Raises:
        ConfigError: It is missing.
    """
    if not request.output:
        raise ConfigError(
            f"the id of the dataset is missing: write {OPTION} NAME-v0 or {OPTION} GROUP/NAME-v0",
            key=OPTION,
        )
    return request.output


def _check_one_task(evidence: Evidence) -> None:
    if len(evidence.tasks) > 1:
        raise ConfigError(
            f"a dataset holds one task, and the targets have {join_names(evidence.tasks)}: name one of "
            f"them (--task {evidence.tasks[0]})"
        )


def _completed(evidence: Evidence, workspace: Workspace) -> list[RunPaths]:
    """The runs with a score, in the order of the targets."""
    scored = [member for member in evidence.members if member.score is not None]
    return [workspace.experiment(m.experiment).run(m.record.spec.name) for m in scored]


def _restored(
    runs: Sequence[RunPaths], request: ExportRequest, workspace: Workspace
) -> list[RecordedPolicy]:
    policies = find_policies(runs, request.checkpoint, workspace, _command(request, workspace))
    return [
        RecordedPolicy(
            f"{run.folder.parent.name}/{run.folder.name}",
            policy,
            restore_policy(
                policy,
                draw=0,
                deterministic=False if request.stochastic else None,
                allowed=workspace.allowed,
                lean=is_lean(run),
            ),
        )
        for run, policy in zip(runs, policies, strict=True)
    ]


def _command(request: ExportRequest, workspace: Workspace) -> list[str]:
    """The command of the request."""
    command = ["rlexp", "export", request.format, *request.targets, OPTION, str(request.output)]
    command += ["--phase", request.phase] if request.phase else []
    command += [word for task in request.tasks for word in ("--task", task)]
    command += ["--episodes", str(request.episodes)] if request.episodes is not None else []
    command += ["--checkpoint", str(request.checkpoint)] if request.checkpoint is not None else []
    command += ["--stochastic"] if request.stochastic else []
    command += ["--strict"] if request.strict else []
    return command + [
        word for package in workspace.allowed for word in ("--allow-import", package)
    ]


def _mean(played: "Sequence[Episodes]") -> float:
    return fmean(value for each in played for value in each.returns)


def _described(played: "Sequence[Episodes]", request: ExportRequest) -> str:
    """The content of the dataset in one sentence."""
    policy = "final policy" if request.checkpoint is None else f"step {request.checkpoint:,}"
    count = sum(len(each.returns) for each in played)
    steps = sum(sum(each.lengths) for each in played)
    return (
        f"{format_count(count, 'episode')} ({steps:,} steps) of {format_count(len(played), 'run')}, "
        f"{policy}: mean return {format_score(_mean(played))}"
    )
