"""From the parts of a run and its restored learner to the recipe of a script."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rlexp.algorithms.noise import Noise
from rlexp.algorithms.schedules import Schedule
from rlexp.environments.composed import ComposedTask
from rlexp.errors import RecordError
from rlexp.exchange.exporters.expressions import Expression, expression
from rlexp.exchange.exporters.script import LEARNING, Learner, Recipe, Task
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.records.events import Evaluated

if TYPE_CHECKING:
    from rlexp.training.parts import Training

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
