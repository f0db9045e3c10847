"""Exports a run as a script that rebuilds and evaluates its policy without rlexp.

`make_script` is the entry. `export_policy` makes the files, `check_exportable` refuses runs that a
script cannot hold, and `make_recipe` reads the parameters of the script from the restored run.
"""

import inspect
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, fields
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.agents.networks import network_schedules
from rlexp.algorithms import BringsEnvironments
from rlexp.algorithms.library import NOT_OF_THE_LIBRARY
from rlexp.algorithms.noise import ExplorationNoise
from rlexp.algorithms.schedules import HyperparameterSchedule
from rlexp.app.evaluation.playback import Policy, check_archives, find_policy
from rlexp.app.execution.checks.import_permission import (
    OWN_PACKAGE,
    check_imports,
    foreign_modules,
)
from rlexp.app.execution.software_versions import COMPILER, collect_versions
from rlexp.app.exporting.output import (
    Content,
    Export,
    ExportedFiles,
    ExportRequest,
    ExportTarget,
    copy_of,
)
from rlexp.app.reading.experiment_scan import configuration_of, run_mismatch, survey
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.reading.integrity import examine, refuse_changed
from rlexp.app.reading.provenance import provenance_of
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.config.secret_check import has_variable, texts_with_paths
from rlexp.environments.composed import ComposedTask
from rlexp.errors import ConfigError, EnvironmentFault, RecordError, RlexpError
from rlexp.exchange.exporters.script import (
    LEARNING,
    Expression,
    Recipe,
    ScriptLearner,
    ScriptTask,
    expression,
    render_requirements,
    render_script,
)
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, Phase
from rlexp.protocol.shared_experience import EXPERIENCE
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.step_schedule import StepSchedule, first_value
from rlexp.protocol.units import unit_text
from rlexp.records.events import Evaluated
from rlexp.records.run import State
from rlexp.replay.library_buffer import shown_replay
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import StoredRun, read_run
from rlexp.store.secrets import mask_all, secret_values
from rlexp.text import format_count, format_score

if TYPE_CHECKING:
    from rlexp.training.parts import Training


SCRIPT, REQUIREMENTS = "evaluate.py", "requirements.txt"
NEEDED = ("gymnasium", "numpy", "stable-baselines3", "torch")
"""Packages that every script imports."""
CONTRIB = "sb3-contrib"
LONGEST_LIST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPolicy:
    """The files of a run's script by name, and the packages that they need.

    Attributes:
        algorithm: Name of the class that loads the policy (`PPO`).
        compiled: The compiled algorithm that trained the policy, or None.
        files: The content of each file.
        foreign: Packages that the script imports and the folder does not contain.
        final: The final evaluation.
        phase: The phase of the run.
    """

    algorithm: str
    compiled: str | None
    files: Mapping[str, Content]
    foreign: tuple[str, ...]
    final: Evaluated
    phase: Phase


def make_script(request: ExportRequest, output: ExportTarget, workspace: Workspace) -> Export:
    """Export a folder with the script, the parameters and the versions of packages.

    Raises:
        RlexpError: The target is not a single completed run, or it cannot be rebuilt without rlexp.
    """
    if len(request.targets) != 1:
        raise ConfigError("a script is made from one run: name EXPERIMENT/RUN")
    paths = find_run(request.targets[0], workspace)
    problems = _changed(paths, strict=request.strict)
    command = ["rlexp", "export", "script", run_name(paths), "--output", request.output or ""]
    policy = export_policy(paths, workspace, command)
    final, name = policy.final, run_name(paths)
    episodes = format_count(len(final.returns), "episode")
    score = (
        f"{name}: mean return {format_score(final.mean)} of its final evaluation, n = {episodes}"
    )
    outcome = ExportedFiles(
        format=request.format,
        output=output.path,
        phase=str(policy.phase),
        n=1,
        planned=1,
        run=name,
        mean_return=final.mean,
        imports=policy.foreign,
        problems=problems,
        remarks=(
            f"{score} of one run",
            *import_remarks(policy.foreign),
            *(f"Problem: {line}" for line in problems),
        ),
        next=(evaluation_command(output.path / SCRIPT, policy.foreign, workspace),),
    )
    return Export(contents=policy.files, folder=True, outcome=outcome)


def _changed(run: RunPaths, *, strict: bool) -> tuple[str, ...]:
    """What of the run differs from the ledger, on one line.

    Raises:
        RecordError: With `strict`, a record differs.
    """
    if strict:
        refuse_changed([examine(survey(ExperimentPaths(run.folder.parent)))], run.folder.name)
    text = run_mismatch(run)
    return (text,) if text else ()


def find_run(name: str, workspace: Workspace) -> RunPaths:
    """The run of this name, or the only run of the experiment of this name.

    Raises:
        RecordError: There is no such run, or the experiment has several runs; names them.
    """
    match = workspace.find(name)
    if isinstance(match, RunPaths):
        return match
    runs = match.runs()
    if len(runs) != 1:
        names = [run_name(run) for run in runs[:LONGEST_LIST]]
        run_list = (
            f": {', '.join(names)}" + (", …" if len(runs) > LONGEST_LIST else "") if runs else ""
        )
        raise RecordError(
            f"{match.name} is an experiment of {format_count(len(runs), 'run')}, and a script is made "
            f"from one: name EXPERIMENT/RUN{run_list}",
        )
    return runs[0]


def run_name(paths: RunPaths) -> str:
    """A run's name as commands accept it (`EXPERIMENT/RUN`)."""
    return f"{paths.folder.parent.name}/{paths.folder.name}"


def evaluation_command(
    script_path: Path, foreign: Sequence[str], workspace: Workspace
) -> NextCommand:
    """The command that runs a script, with the workspace on the path for the run's own packages."""
    variables = ["env", f"PYTHONPATH={workspace.folder}"] if foreign else []
    return NextCommand(why="try it", command=shlex.join([*variables, "python", str(script_path)]))


def import_remarks(foreign: Sequence[str]) -> list[str]:
    """A sentence about the packages that a script imports and that the export lacks, if any."""
    if not foreign:
        return []
    return [
        f"The script imports {', '.join(foreign)}, which must be importable where it is executed"
    ]


def export_policy(
    paths: RunPaths, workspace: Workspace, command: Sequence[str], model: str = "model.zip"
) -> ExportedPolicy:
    """The files of a run's script.

    Args:
        paths: The run.
        workspace: The workspace, with the packages that it may import from.
        command: The command to repeat with more allowed packages.
        model: The name of the file with the parameters.

    Raises:
        RlexpError: The run has no final policy, its files are damaged or inconsistent, or a plug-in
            cannot be written into a script.
    """
    stored = read_run(paths)
    refuse_imported_run(stored.record.spec)
    spec, final = stored.record.spec, _final(stored, paths)
    policy = find_policy(paths, stored.record, None)
    # Permission comes before everything that imports classes named by the record.
    check_imports([spec], workspace.allowed, command)
    check_exportable(spec)
    # Sizes are checked before any library unpacks the archives.
    check_archives(policy, paths)
    workspace.make_allowed_importable()
    recipe = _recipe(policy, stored, final, paths, workspace, model)
    files: dict[str, Content] = {
        SCRIPT: render_script(recipe).encode(),
        model: copy_of(policy.model),
    }
    if recipe.task.normalises:
        files[policy.normalisation.name] = copy_of(policy.normalisation)
    files[REQUIREMENTS] = _requirements(paths, spec, recipe).encode()
    packages = {module.partition(".")[0] for module in foreign_modules(spec)}
    return ExportedPolicy(
        algorithm=recipe.learner.name,
        compiled=recipe.learner.compiled,
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
    """Restore the policy, which shows that its files are intact, and describe how it is built."""
    from rlexp.app.evaluation.playback import restore_policy

    spec = stored.record.spec
    configuration = configuration_of(paths, spec)
    about = {
        "run": run_name(paths),
        "label": configuration.label,
        "task": configuration.task,
        "phase": str(spec.phase),
        "seed": spec.seed,
        unit_text(spec.unit): stored.record.step,
    }
    # An environment may print to standard output, which must hold nothing but the JSON result.
    with redirect_stdout(sys.stderr), _errors_on_one_line():
        player = restore_policy(policy, draw=0, deterministic=None, allowed=workspace.allowed)
        try:
            return make_recipe(
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
def _errors_on_one_line() -> Iterator[None]:
    """Turn any error of an environment into an EnvironmentFault of one line."""
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
    names = {*NEEDED, *(name for name in collect_versions(spec) if name in packages)} - {
        OWN_PACKAGE,
        CONTRIB,
    }
    # The versions of a run list sb3-contrib always, but few scripts import it.
    if recipe.learner.package == "sb3_contrib":
        names.add(CONTRIB)
    if recipe.learner.compiled is not None:
        # The policy is played by torch alone.
        names -= set(COMPILER)
    return render_requirements(names, packages, provenance.get("python"))


EXPORTABLE_MODULES: Mapping[str, str] = {
    "agent": "rlexp.agents.",
    "algorithm": "rlexp.algorithms.",
    "environment": "rlexp.environments.gymnasium_task.",
}
"""Prefixes of the modules whose plug-ins a script can rebuild, by group."""


def check_exportable(spec: RunSpec) -> None:
    """Refuse plug-ins from other packages, environment variables and secrets.

    Raises:
        RecordError: The run uses one of them; names its key.
    """
    if spec.callback:
        raise RecordError(
            f"a script cannot rebuild what acts while the run trains ({', '.join(spec.callback)}): "
            "use 'rlexp evaluate' to evaluate the run, or export a run without callbacks"
        )
    if spec.budget.get("stop_at") is not None:
        raise RecordError(
            "a script trains for the whole budget, and budget.stop_at ends this run before: use "
            "'rlexp evaluate' to evaluate it"
        )
    for group, module_prefix in EXPORTABLE_MODULES.items():
        plug_in: Mapping[str, Any] = getattr(spec, group)
        target = str(plug_in.get("_target_"))
        if not target.startswith(module_prefix):
            raise RecordError(
                f"{group}._target_={target} is not a plug-in of {OWN_PACKAGE} that a script of "
                "Stable-Baselines3 alone can rebuild; use 'rlexp evaluate' to evaluate the run",
            )
        for key, _, text in texts_with_paths(plug_in, group):
            if has_variable(text):
                raise RecordError(
                    f"{key} is read from an environment variable ({text}), whose value a script would "
                    "contain; use 'rlexp evaluate' to evaluate the run",
                )
        if mask_all(plug_in, secret_values(environ)) != plug_in:
            raise RecordError(
                f"{group} holds a value that looks like a secret, and secrets are never exported; "
                "use 'rlexp evaluate' to evaluate the run",
            )


WRAPPERS = "gymnasium.wrappers"


MEASURING_WRAPPERS = {"rlexp:Measured"}
"""Wrappers that change neither the observations nor the rewards of a policy."""


NOISES = {"normal": "NormalActionNoise", "ornstein_uhlenbeck": "OrnsteinUhlenbeckActionNoise"}


def make_recipe(
    training: "Training",
    model: Any,
    *,
    about: Mapping[str, Any],
    final: Evaluated,
    evaluations: int,
    files: tuple[str, str],
) -> Recipe:
    """Read the recipe of a script from a restored run.

    Args:
        training: The plug-ins and settings of the run.
        model: The restored learner of the run.
        about: Facts about the run that the script prints.
        final: The final evaluation of the run.
        evaluations: The number of evaluations before the final one.
        files: Names of the files with the parameters and with the normalisation statistics.

    Raises:
        RecordError: A value cannot be written as source code.
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
        # Evaluations are numbered from 0, so the final one has the number of those before it.
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


def _task(training: "Training") -> ScriptTask:
    environment: Any = training.environment
    if isinstance(environment, ComposedTask):
        names = ", ".join(environment.components)
        raise RecordError(
            f"a script cannot rebuild the components of the environment ({names}): "
            "export a run without components"
        )
    if not isinstance(getattr(environment, "id", None), str):
        raise RecordError(
            "a script can only make tasks that Gymnasium registers, but rlexp makes this one"
        )
    wrappers = [w for w in environment.wrappers if w.name not in MEASURING_WRAPPERS]
    if own_wrappers := [w.name for w in wrappers if w.name.startswith(("rlexp.", "rlexp:"))]:
        raise RecordError(
            f"a script without rlexp cannot use its wrappers: {', '.join(own_wrappers)}"
        )
    module, _, name = environment.id.rpartition(":")
    limit, vector = environment.max_episode_steps, environment.vector
    normalised = vector.normalise_observations or vector.normalise_rewards
    return ScriptTask(
        id=name,
        modules=(*environment.imports, *([module] if module else ())),
        arguments={
            **({} if limit is None else {"max_episode_steps": limit}),
            **environment.arguments,
        },
        wrappers=tuple((*_split_wrapper_name(w.name), w.arguments) for w in wrappers),
        count=vector.count,
        frame_stack=vector.frame_stack,
        normalisation={
            "norm_obs": vector.normalise_observations,
            "norm_reward": vector.normalise_rewards,
            "clip_obs": vector.clip_observations,
            "clip_reward": vector.clip_rewards,
            "gamma": first_value(getattr(training.algorithm, "gamma", 0.99)),
        }
        if normalised
        else None,
    )


def _split_wrapper_name(name: str) -> tuple[str, str]:
    """The module and the class that a wrapper's name stands for."""
    module, _, kind = name.rpartition(":" if ":" in name else ".")
    return module or WRAPPERS, kind


def _learner(training: "Training", model: Any) -> ScriptLearner:
    algorithm: Any = training.algorithm
    compiled = isinstance(algorithm, BringsEnvironments)
    # A compiled learner is a class of the library whose training alone is replaced.
    kinds = type(model).__mro__ if compiled else (type(model),)
    kind = next((k for k in kinds if _package(k) in LEARNING), None)
    if kind is None:
        raise RecordError(f"{type(model).__name__} is not a learner of {' or '.join(LEARNING)}")
    for schedule in (
        *network_schedules(training.agent).values(),
        getattr(algorithm, EXPERIENCE, None),
    ):
        _value(schedule)
    if training.replay is not None:
        raise RecordError(
            f"the run has {shown_replay(training.replay)}, which a script without rlexp cannot repeat: "
            "play its policy with 'rlexp evaluate'"
        )
    left_out = NOT_OF_THE_LIBRARY | getattr(algorithm, "not_of_the_library", frozenset())
    return ScriptLearner(
        package=_package(kind),
        name=kind.__name__,
        policy=training.agent.policy,
        hyperparameters={
            f.name: _value(getattr(algorithm, f.name))
            for f in fields(algorithm)
            if f.name not in left_out
        },
        policy_arguments={k: _value(v) for k, v in training.agent.arguments().items()},
        seed=training.streams.policy,
        actions=training.streams.actions,
        device=training.compute.device,
        explores=hasattr(model, "exploration_rate"),
        masked="action_masks" in inspect.signature(model.predict).parameters,
        noisy=bool(getattr(model, "use_sde", False)),
        compiled=algorithm.identity.name if compiled else None,
    )


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _value(value: Any) -> Any:
    """A value as the library expects it, as source code where it is not plain data."""
    match value:
        case HyperparameterSchedule(shape="constant"):
            return Expression(f"ConstantSchedule({expression(value.initial)})")
        case HyperparameterSchedule():
            ends = ", ".join(map(expression, (value.initial, value.final, value.until)))
            return Expression(f"LinearSchedule({ends})")
        case StepSchedule():
            raise RecordError(
                "a setting of the run changes at given steps, which a script without rlexp "
                "cannot repeat: play its policy with 'rlexp evaluate'"
            )
        case ExplorationNoise():
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
