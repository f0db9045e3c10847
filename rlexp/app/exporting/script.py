"""A run as a script that rebuilds its policy with Stable-Baselines3 alone."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.app.execution.import_permission import OURS, check_imports, foreign_modules
from rlexp.app.execution.reproducibility import versions
from rlexp.app.export_checks import check_parts
from rlexp.app.export_request import ExportRequest
from rlexp.app.exporting.output import Content, Export, ExportedFiles, Output, copied
from rlexp.app.policies import Policy, check_archives, find_policy
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.reading.provenance import provenance_of
from rlexp.app.reading.survey import configuration_of
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, EnvironmentFault, RecordError, RlexpError
from rlexp.exchange.exporters.requirements import requirements
from rlexp.exchange.exporters.script import script
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated
from rlexp.records.run import State
from rlexp.reports.sentences import counted
from rlexp.store.layout import RunPaths
from rlexp.store.runs import StoredRun, read_run
from rlexp.store.secrets import mask_all, secret_values

if TYPE_CHECKING:
    from rlexp.exchange.exporters.script import Recipe

SCRIPT, REQUIREMENTS = "evaluate.py", "requirements.txt"
NEEDED = ("gymnasium", "numpy", "stable-baselines3", "torch")
"""Packages that every script imports."""
CONTRIB = "sb3-contrib"
MOST_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """A run that is written as a script: its files by name, and what it needs."""

    algorithm: str
    files: Mapping[str, Content]
    foreign: tuple[str, ...]
    final: Evaluated
    phase: Phase


def make_script(request: ExportRequest, output: Output, workspace: Workspace) -> Export:
    """A folder with the script, the parameters and the versions of packages.

    Raises:
        RlexpError: The target is no single completed run, or it cannot be rebuilt without rlexp.
    """
    if len(request.targets) != 1:
        raise ConfigError("a script is of one run: name EXPERIMENT/RUN")
    paths = find_run(request.targets[0], workspace)
    command = ["rlexp", "export", "script", run_name(paths), "--output", request.output or ""]
    policy = scripted(paths, workspace, command)
    final, name = policy.final, run_name(paths)
    episodes = counted(len(final.returns), "episode")
    score = f"{name}: mean return {final.mean:,.2f} of its final evaluation, n = {episodes}"
    outcome = ExportedFiles(
        format=request.format,
        output=output.path,
        phase=str(policy.phase),
        n=1,
        planned=1,
        run=name,
        mean_return=final.mean,
        imports=policy.foreign,
        remarks=(f"{score} of one run", *needed_lines(policy.foreign)),
        next=(playing(output.path / SCRIPT, policy.foreign, workspace),),
    )
    return Export(contents=policy.files, folder=True, outcome=outcome)


def find_run(name: str, workspace: Workspace) -> RunPaths:
    """The run of this name, or the only run of the experiment of this name.

    Raises:
        RecordError: There is none, or there are several; names them.
    """
    found = workspace.find(name)
    if isinstance(found, RunPaths):
        return found
    runs = found.runs()
    if len(runs) != 1:
        names = [run_name(run) for run in runs[:MOST_NAMES]]
        told = f": {', '.join(names)}" + (", …" if len(runs) > MOST_NAMES else "") if runs else ""
        raise RecordError(
            f"{found.name} is an experiment of {counted(len(runs), 'run')}, and a script is of "
            f"one: name EXPERIMENT/RUN{told}",
        )
    return runs[0]


def run_name(paths: RunPaths) -> str:
    """A run's name as commands take it."""
    return f"{paths.folder.parent.name}/{paths.folder.name}"


def playing(script_path: Path, foreign: Sequence[str], workspace: Workspace) -> NextCommand:
    """The command that runs a script; what it imports may lie in the workspace's folder."""
    variables = ["env", f"PYTHONPATH={workspace.folder}"] if foreign else []
    return NextCommand(why="try it", command=shlex.join([*variables, "python", str(script_path)]))


def needed_lines(foreign: Sequence[str]) -> list[str]:
    """What is said where a script imports packages that it does not bring along."""
    if not foreign:
        return []
    return [f"The script imports {', '.join(foreign)}, which must be importable where it is run"]


def scripted(
    paths: RunPaths, workspace: Workspace, command: Sequence[str], model: str = "model.zip"
) -> Scripted:
    """The files of a run's script.

    Args:
        paths: The run.
        workspace: The workspace, with the packages that it may import from.
        command: The command to repeat with more of them.
        model: The name that the file with the parameters gets.

    Raises:
        RlexpError: The run has no final policy, its files are damaged or do not fit one another,
            or a part of it cannot be written into a script; says which.
    """
    stored = read_run(paths)
    refuse_imported_run(stored.record.spec)
    spec, final = stored.record.spec, _final(stored, paths)
    policy = find_policy(paths, stored.record, None)
    check_imports([spec], workspace.allowed, command)
    check_parts(spec)
    check_archives(policy, paths)
    workspace.make_allowed_importable()
    recipe = _recipe(policy, stored, final, paths, workspace, model)
    files: dict[str, Content] = {SCRIPT: script(recipe).encode(), model: copied(policy.model)}
    if recipe.task.normalises:
        files[policy.normalisation.name] = copied(policy.normalisation)
    files[REQUIREMENTS] = _requirements(paths, spec, recipe).encode()
    packages = {module.partition(".")[0] for module in foreign_modules(spec)}
    return Scripted(
        algorithm=recipe.learner.name,
        files=files,
        foreign=tuple(sorted(packages)),
        final=final,
        phase=spec.phase,
    )


def _final(stored: StoredRun, paths: RunPaths) -> Evaluated:
    """The final evaluation of a completed run."""
    record = stored.record
    if record.state is State.COMPLETED and record.final is not None:
        return record.final
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {record.reason}" if record.reason else ""
    raise RecordError(
        f"run {run_name(paths)} has no final policy to export: it is {record.state}{kind}{reason}"
    )


def _recipe(
    policy: Policy,
    stored: StoredRun,
    final: Evaluated,
    paths: RunPaths,
    workspace: Workspace,
    model: str,
) -> "Recipe":
    """Restore the policy, so that its files are known to be whole, and describe how it is built."""
    from rlexp.app.evaluation.playback import restored
    from rlexp.app.export_recipe import describe

    spec = stored.record.spec
    configuration = configuration_of(paths, spec)
    about = {
        "run": run_name(paths),
        "label": configuration.label,
        "task": configuration.task,
        "phase": str(spec.phase),
        "seed": spec.seed,
        "environment steps": stored.record.step,
    }
    # What an environment prints must not end up between the lines of a JSON value.
    with redirect_stdout(sys.stderr), _one_line():
        player = restored(policy, draw=0, deterministic=None, allowed=workspace.allowed)
        try:
            return describe(
                player.training,
                player.model,
                about=mask_all(about, secret_values(environ)),
                final=final,
                evaluations=len(stored.record.evaluations),
                files=(model, policy.normalisation.name),
            )
        finally:
            if player.model.env is not None:
                player.model.env.close()


@contextmanager
def _one_line() -> Iterator[None]:
    """Show what an environment raises as one line."""
    try:
        yield
    except RlexpError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise EnvironmentFault(f"the run's policy cannot be rebuilt: {reason}") from error


def _requirements(paths: RunPaths, spec: RunSpec, recipe: "Recipe") -> str:
    attempts = paths.attempts()
    provenance = provenance_of(attempts[-1]) if attempts else {}
    recorded = provenance.get("packages")
    packages = recorded if isinstance(recorded, Mapping) else {}
    names = {*NEEDED, *(name for name in versions(spec) if name in packages)} - {OURS, CONTRIB}
    if recipe.learner.package == "sb3_contrib":
        names.add(CONTRIB)
    return requirements(names, packages, provenance.get("python"))
