"""A script that rebuilds a policy with Stable-Baselines3 alone and plays its final evaluation."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlexp.exchange.exporters.expressions import Expression, expression, lines_of
from rlexp.exchange.exporters.script_text import (
    DOCSTRING,
    ENVIRONMENTS,
    MAIN,
    PLAY,
    STATISTICS,
    WEIGHTS,
)

LEARNING = ("stable_baselines3", "sb3_contrib")
"""Packages that the class of a learner may come from."""
NOISES = ("NormalActionNoise", "OrnsteinUhlenbeckActionNoise")
SCHEDULES = ("ConstantSchedule", "LinearSchedule")
LOADING = "load_from_zip_file, recursive_getattr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """How one environment is made, and what is done to the numbers of several.

    Attributes:
        id: A registered id.
        modules: To be imported first.
        arguments: Of `gymnasium.make`.
        wrappers: Module, class and arguments of each, the innermost first.
        count: Environments that trained side by side.
        frame_stack: Observations that are stacked; 1 stacks none.
        normalisation: Arguments of `VecNormalize` in training, or nothing.
    """

    id: str
    modules: tuple[str, ...]
    arguments: Mapping[str, Any]
    wrappers: tuple[tuple[str, str, Mapping[str, Any]], ...]
    count: int
    frame_stack: int
    normalisation: Mapping[str, Any] | None

    @property
    def normalises(self) -> bool:
        """Whether evaluations see normalised observations."""
        return self.normalisation is not None and bool(self.normalisation["norm_obs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """How the learner is built.

    Attributes:
        package: One of `LEARNING`.
        name: The class in it (`PPO`).
        policy: The policy's name in it (`MlpPolicy`).
        hyperparameters: Keyword arguments, in their order.
        policy_arguments: Those of the policy.
        seed: Of the policy.
        actions: Seed of the action space, from which random actions are drawn.
        device: That it computes on.
        explores: Whether it acts at random at a rate that its file holds.
        masked: Whether it asks the environments for masks of actions.
        noisy: Whether its exploration noise depends on the state.
    """

    package: str
    name: str
    policy: str
    hyperparameters: Mapping[str, Any]
    policy_arguments: Mapping[str, Any]
    seed: int
    actions: int
    device: str
    explores: bool
    masked: bool
    noisy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a script says of one run.

    Attributes:
        about: What is told of the run: its name, label, task, phase, seed.
        model: Name of the file with its parameters, beside the script.
        statistics: Name of the file with the statistics of normalisation.
        evaluation_seeds: One for each environment of the final evaluation.
        sampling: Seed of what a stochastic policy draws in it.
        training_seeds: One for each environment that trained.
        returns: Of the episodes of the final evaluation as recorded.
        lengths: Of the same, in steps.
    """

    about: Mapping[str, Any]
    task: Task
    learner: Learner
    model: str
    statistics: str
    threads: int
    steps: int
    deterministic: bool
    evaluation_seeds: tuple[int, ...]
    sampling: int
    training_seeds: tuple[int, ...]
    returns: tuple[float, ...]
    lengths: tuple[int, ...]


def script(recipe: Recipe) -> str:
    """The source of the script, in ASCII; what records hold stands in it as data only."""
    learner = recipe.learner
    parts = [
        DOCSTRING,
        "\n".join(_imports(recipe)),
        "\n".join(_constants(recipe)),
        ENVIRONMENTS,
        "\n".join(_build(learner)),
        WEIGHTS.format(
            exploration=_EXPLORATION if learner.explores else "",
            noise=_NOISE if learner.noisy else "",
        ),
        *([STATISTICS] if recipe.task.normalises else []),
        PLAY.format(masks=_MASKS if learner.masked else "", extra=", **masks" * learner.masked),
        MAIN.format(
            room=", buffer_size=1" if "buffer_size" in learner.hyperparameters else "",
            read=_READ if recipe.task.normalises else "",
            share=_SHARE if recipe.task.normalises else "",
        ),
    ]
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


_EXPLORATION = """
    with zipfile.ZipFile(MODEL) as archive:
        model.exploration_rate = float(json.loads(archive.read("data"))["exploration_rate"])"""
_NOISE = """
    # The noise was drawn from the untrained standard deviation.
    (getattr(model, "actor", None) or model.policy).reset_noise()"""
_MASKS = """
        playing = np.flatnonzero(left)
        allowed = np.stack(vector.env_method("action_masks", indices=playing.tolist()))
        masks = {"action_masks": np.ones((count, *allowed.shape[1:]), dtype=bool)}
        masks["action_masks"][playing] = allowed"""
_READ = """
        read_statistics(training)"""
_SHARE = """
    unwrap_vec_normalize(vector).obs_rms = unwrap_vec_normalize(training).obs_rms"""


def _constants(recipe: Recipe) -> Iterator[str]:
    task = recipe.task
    yield from lines_of("RUN", recipe.about)
    yield f"MODEL = HERE / {expression(recipe.model)}"
    if task.normalises:
        yield f"NORMALISATION = HERE / {expression(recipe.statistics)}"
    yield ""
    yield from lines_of("MODULES", list(task.modules))
    yield from lines_of("ENVIRONMENT", {"id": task.id, **task.arguments})
    yield from lines_of("WRAPPERS", list(task.wrappers))
    normalisation = task.normalisation
    yield from lines_of("NORMALISE", None if normalisation is None else dict(normalisation))
    yield from lines_of("FRAME_STACK", task.frame_stack)
    yield ""
    yield f"THREADS = {expression(recipe.threads)}"
    yield f"STEPS = {expression(recipe.steps)}"
    yield from lines_of("TRAINING_SEEDS", list(recipe.training_seeds))
    yield from lines_of("EVALUATION_SEEDS", list(recipe.evaluation_seeds))
    yield f"SAMPLING_SEED = {expression(recipe.sampling)}"
    yield f"DETERMINISTIC = {expression(recipe.deterministic)}"
    yield "# What the run recorded."
    yield from lines_of("RETURNS", list(recipe.returns))
    yield f"LENGTHS = {expression(list(recipe.lengths))}"


def _build(learner: Learner) -> Iterator[str]:
    """A function that calls the class with readable keyword arguments."""
    values = dict(learner.hyperparameters)
    room = ""
    if "buffer_size" in values:
        room = f", buffer_size={expression(values['buffer_size'])}"
        values["buffer_size"] = Expression("buffer_size")
    yield f"def build(environment{room}):"
    yield '    """An untrained learner with the hyperparameters of the run."""'
    if "shape" in _sources(values):
        yield "    shape = environment.action_space.shape or ()"
    yield f"    learner = {learner.name}("
    yield f"        {expression(learner.policy)},"
    yield "        environment,"
    for name, value in values.items():
        yield f"        {name}={expression(value)},"
    yield f"        policy_kwargs={expression(learner.policy_arguments)},"
    yield f"        seed={expression(learner.seed)},"
    yield f"        device={expression(learner.device)},"
    yield "    )"
    yield f"    learner.action_space.seed({expression(learner.actions)})"
    yield "    return learner"


def _imports(recipe: Recipe) -> Iterator[str]:
    """Import statements, of what the script uses only."""
    learner, task = recipe.learner, recipe.task
    used = _sources(learner.hyperparameters) + _sources(learner.policy_arguments)
    yield from (f"import {name}" for name in (*(["json"] * learner.explores), "math", "random"))
    yield from (f"import {name}" for name in ("sys", *(["zipfile"] * learner.explores)))
    yield "from importlib import import_module"
    yield "from pathlib import Path"
    yield ""
    yield "import gymnasium as gym"
    yield "import numpy as np"
    yield "import torch"
    yield f"from {learner.package} import {learner.name}"
    yield from _chosen("stable_baselines3.common.noise", NOISES, used)
    yield f"from stable_baselines3.common.save_util import {LOADING}"
    yield from _chosen("stable_baselines3.common.utils", SCHEDULES, used)
    vectors = "DummyVecEnv, VecFrameStack, VecNormalize"
    unwrap = ", unwrap_vec_normalize" if task.normalises else ""
    yield f"from stable_baselines3.common.vec_env import {vectors}{unwrap}"
    yield from _chosen("torch", ("nn",), used.replace("nn.", "nn("))
    yield ""
    yield "HERE = Path(__file__).resolve().parent"


def _chosen(module: str, names: Iterable[str], used: str) -> Iterator[str]:
    if own := [name for name in names if f"{name}(" in used]:
        yield f"from {module} import {', '.join(own)}"


def _sources(values: Mapping[str, Any]) -> str:
    """Everything in the values that is code."""
    return " ".join(v.source for v in values.values() if isinstance(v, Expression))
