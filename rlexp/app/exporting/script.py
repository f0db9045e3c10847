"""A run as a script that rebuilds its policy with Stable-Baselines3 alone."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.app.evaluation.playback import Policy, check_archives, find_policy
from rlexp.app.execution.import_permission import OURS, check_imports, foreign_modules
from rlexp.app.execution.reproducibility import versions
from rlexp.app.exporting.output import (
    Content,
    Export,
    ExportedFiles,
    ExportRequest,
    Output,
    copied,
)
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.reading.provenance import provenance_of
from rlexp.app.reading.survey import configuration_of
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, EnvironmentFault, RecordError, RlexpError
from rlexp.exchange.exporters.script import requirements, script
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated
from rlexp.records.run import State
from rlexp.store.layout import RunPaths
from rlexp.store.runs import StoredRun, read_run
from rlexp.store.secrets import mask_all, secret_values
from rlexp.text import counted

if TYPE_CHECKING:
    from rlexp.exchange.exporters.script import Recipe
import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rlexp.algorithms.noise import Noise
from rlexp.algorithms.schedules import Schedule
from rlexp.environments.composed import ComposedTask
from rlexp.exchange.exporters.script import LEARNING, Expression, Learner, Recipe, Task, expression
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS

if TYPE_CHECKING:
    from rlexp.training.parts import Training

from rlexp.config.plain_secrets import texts
from rlexp.config.variables import has_variable

HOMES: Mapping[str, str] = {
    "agent": "rlexp.agents.",
    "algorithm": "rlexp.algorithms.",
    "environment": "rlexp.environments.gymnasium_task.",
}
"""Where the parts are from that a script knows how to write."""


def check_parts(spec: RunSpec) -> None:
    """Refuse parts that are not ours, environment variables and secrets.

    Raises:
        RecordError: There is one; says where.
    """
    for group, home in HOMES.items():
        part: Mapping[str, Any] = getattr(spec, group)
        target = str(part.get("_target_"))
        if not target.startswith(home):
            raise RecordError(
                f"{group}._target_={target} is no part of {OURS} that a script of "
                "Stable-Baselines3 alone can hold; 'rlexp evaluate' plays the run",
            )
        for path, _, text in texts(part, group):
            if has_variable(text):
                raise RecordError(
                    f"{path} is read from an environment variable ({text}), which a script would "
                    "have to hold; 'rlexp evaluate' plays the run",
                )
        if mask_all(part, secret_values(environ)) != part:
            raise RecordError(
                f"{group} holds what looks like a secret, and secrets are never exported; "
                "'rlexp evaluate' plays the run",
            )


WRAPPERS = "gymnasium.wrappers"
MEASURING = {"rlexp:Measured"}
"""Wrappers that change nothing of what a policy sees or earns."""
NOISES = {"normal": "NormalActionNoise", "ornstein_uhlenbeck": "OrnsteinUhlenbeckActionNoise"}


def describe(
    training: "Training",
    model: Any,
    *,
    about: Mapping[str, Any],
    final: Evaluated,
    evaluations: int,
    files: tuple[str, str],
) -> Recipe:
    """The recipe of a script.

    Args:
        training: The parts of the run.
        model: Its learner, restored.
        about: What the script tells of the run.
        final: Its final evaluation.
        evaluations: How many came before that one.
        files: Names of the files with the parameters and the statistics of normalisation.

    Raises:
        RecordError: A value has no source in a script.
    """
    streams = training.streams
    return Recipe(
        about=about,
        task=_task(training),
        learner=_learner(training, model),
        model=files[0],
        statistics=files[1],
        threads=training.compute.threads,
        steps=training.budget.steps,
        deterministic=training.budget.evaluation_deterministic,
        evaluation_seeds=tuple(
            streams.evaluation(evaluations, i) for i in range(EVALUATION_ENVIRONMENTS)
        ),
        sampling=streams.sampling(evaluations),
        training_seeds=tuple(
            streams.training(i) for i in range(training.environment.vector.count)
        ),
        returns=final.returns,
        lengths=final.lengths,
    )


def _task(training: "Training") -> Task:
    environment: Any = training.environment
    if isinstance(environment, ComposedTask):
        names = ", ".join(environment.components)
        raise RecordError(
            f"a script cannot rebuild the components of the environment ({names}): "
            "export a run without components"
        )
    if not isinstance(getattr(environment, "id", None), str):
        raise RecordError(
            "a script can only make tasks that Gymnasium registers: this one is made by rlexp"
        )
    wrappers = [w for w in environment.wrappers if w.name not in MEASURING]
    if ours := [w.name for w in wrappers if w.name.startswith(("rlexp.", "rlexp:"))]:
        raise RecordError(f"a script without rlexp cannot use its wrappers: {', '.join(ours)}")
    module, _, name = environment.id.rpartition(":")
    limit, vector = environment.max_episode_steps, environment.vector
    normalised = vector.normalise_observations or vector.normalise_rewards
    return Task(
        id=name,
        modules=(*environment.imports, *([module] if module else ())),
        arguments={
            **({} if limit is None else {"max_episode_steps": limit}),
            **environment.arguments,
        },
        wrappers=tuple((*_place(w.name), w.arguments) for w in wrappers),
        count=vector.count,
        frame_stack=vector.frame_stack,
        normalisation={
            "norm_obs": vector.normalise_observations,
            "norm_reward": vector.normalise_rewards,
            "clip_obs": vector.clip_observations,
            "clip_reward": vector.clip_rewards,
            "gamma": getattr(training.algorithm, "gamma", 0.99),
        }
        if normalised
        else None,
    )


def _place(name: str) -> tuple[str, str]:
    """The module and the class that a wrapper's name stands for."""
    module, _, kind = name.rpartition(":" if ":" in name else ".")
    return module or WRAPPERS, kind


def _learner(training: "Training", model: Any) -> Learner:
    kind = type(model)
    package = kind.__module__.partition(".")[0]
    if package not in LEARNING:
        raise RecordError(f"{kind.__name__} is no learner of {' or '.join(LEARNING)}")
    algorithm: Any = training.algorithm
    return Learner(
        package=package,
        name=kind.__name__,
        policy=training.agent.policy,
        hyperparameters={f.name: _value(getattr(algorithm, f.name)) for f in fields(algorithm)},
        policy_arguments={k: _value(v) for k, v in training.agent.arguments().items()},
        seed=training.streams.policy,
        actions=training.streams.actions,
        device=training.compute.device,
        explores=hasattr(model, "exploration_rate"),
        masked="action_masks" in inspect.signature(model.predict).parameters,
        noisy=bool(getattr(model, "use_sde", False)),
    )


def _value(value: Any) -> Any:
    """A value as the library takes it, as source where it is no plain data."""
    match value:
        case Schedule(shape="constant"):
            return Expression(f"ConstantSchedule({expression(value.initial)})")
        case Schedule():
            ends = ", ".join(map(expression, (value.initial, value.final, value.until)))
            return Expression(f"LinearSchedule({ends})")
        case Noise():
            sigma = f"np.full(shape, {expression(value.sigma)})"
            return Expression(f"{NOISES[value.kind]}(np.zeros(shape), {sigma})")
        case type():
            return Expression(f"nn.{_activation(value)}")
        case _:
            return value


def _activation(kind: type) -> str:
    """The name of a class of `torch.nn`."""
    name = kind.__name__
    if not kind.__module__.startswith("torch.nn.") or not name.isidentifier():
        raise RecordError(f"class {name} cannot be written into a script")
    return name


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
