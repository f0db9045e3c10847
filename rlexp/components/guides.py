"""Guides: policies of finished runs, which act or show the way in the environments of another run."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rlexp.environments import Environment, Reference, Vector
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_run, read_spec

if TYPE_CHECKING:
    from rlexp.training.restore import Learner

Env = gym.Env[Any, Any]
MOST_NAMED = 5
BESIDE = "+"
"""Stands between the digests of weights, of statistics with which they see, and of settings."""
ACTING = ("activation", "policy_kwargs")
"""Settings of an agent with which equal weights act otherwise."""
USUAL_CLIP = 10.0
"""Where observations are clipped that are normalised, unless a run says otherwise."""
MISFIT = "does not fit this run"
"""What is said of parameters that a policy of this environment does not have."""


def final_weights(run: str, component: str) -> str:
    """The digest of the final weights of a run that may guide.

    Args:
        run: Its folder, or that of an experiment with one run.
        component: Who asks, for the error.

    Raises:
        ConfigError: It is no completed run with a policy of its own; says why.
    """
    paths = _run(run, component)
    try:
        record = read_run(paths).record
    except RlexpError as error:
        raise ConfigError(f"{_setting(component)}={run!r}: {error}") from error
    if record.state is not State.COMPLETED or record.weights is None or not paths.model.is_file():
        raise ConfigError(
            f"{_setting(component)}={run!r} has no final policy (it is {record.state}): name a "
            "run that is completed and was trained here"
        )
    return _digest(paths, record.spec, record.weights)


def load_guide(run: str, weights: str | None, environment: Env, component: str) -> "Guide":
    """The final policy of a run, as it acts in an environment. Nothing is unpickled or drawn.

    Args:
        run: The run's folder, or that of an experiment with one run.
        weights: The digest that its parameters must have.
        environment: In which it is to act; of the run's own environment nothing is made.
        component: Who asks, for the error.

    Raises:
        ConfigError: The policy does not fit the environment, or is another one by now.
    """
    from rlexp.training.restore import restore
    from rlexp.training.rng_state import undisturbed_globals

    paths = _run(run, component, weights)
    try:
        spec = read_spec(paths)
        training = _training(spec, environment)
        with undisturbed_globals():
            learner = restore(
                training,
                paths.model,
                paths.normalisation,
                weights=weights and weights.partition(BESIDE)[0],
            )
        if weights is not None:
            _check_beside(paths, spec, weights, component)
    except (RlexpError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())
        if MISFIT in reason:
            task = spec.environment.get("id", "another task")
            reason = f"its policy, of {task}, has other observations or actions, or is damaged"
        raise ConfigError(f"{_setting(component)}={run!r} cannot guide here: {reason}") from error
    return Guide(learner)


class Guide:
    """A policy that acts without chance, in one episode after the other."""

    def __init__(self, learner: "Learner") -> None:
        self._learner = learner
        self._memory: Any = None
        self._starts = True

    def begin(self) -> None:
        """Forget the episode before."""
        self._memory, self._starts = None, True

    def act(self, observation: Any) -> Any:
        """The action that the policy takes at an observation of the environment."""
        from rlexp.training.vectorise import as_seen

        actions, self._memory = self._learner.predict(
            as_seen(self._learner.env, _batch(observation)),
            state=self._memory,
            episode_start=np.asarray([self._starts]),
            deterministic=True,
        )
        self._starts = False
        return actions[0]


@dataclass(frozen=True, slots=True)
class _Lent:
    """An environment that is there already, for a policy to be built on."""

    environment: Env
    vector: Vector
    task: str = "lent"
    reference: Reference = Reference()  # noqa: RUF009

    def make(self, render: str | None = None, inner: Callable[[Env], Env] | None = None) -> Env:
        """Return it."""
        del render
        return self.environment if inner is None else inner(self.environment)


def _training(spec: RunSpec, environment: Env) -> Any:
    """The parts of a guide's run, on an environment that is there: none of its own code is run."""
    from rlexp.config.validate import build, validate_settings
    from rlexp.protocol.budget import Budget, Compute
    from rlexp.training.parts import Training

    vector = validate_settings(Vector, spec.environment.get("vector") or {}, "vector.")
    if vector.frame_stack > 1:
        raise ConfigError("it sees stacked frames, which only a vector of environments has")
    lent: Environment = _Lent(environment, vector)
    return Training(
        agent=build(spec.agent, "agent"),
        algorithm=build(spec.algorithm, "algorithm"),
        environment=lent,
        budget=Budget(**spec.budget),
        compute=Compute(threads=1, device="cpu"),
        streams=spec.streams,
    )


def _run(run: str, component: str, weights: str | None = None) -> RunPaths:
    """The run that is meant: of several in a folder, one whose weights are known."""
    folder = Path(run)
    found = [folder] if RunPaths(folder).spec.is_file() else _runs_in(folder)
    if weights is not None and len(found) > 1:
        found = [each for each in found if _has(RunPaths(each), weights)][:1] or found
    if len(found) == 1:
        return RunPaths(found[0])
    several = (
        f" (it has: {', '.join(each.name for each in found[:MOST_NAMED])} …)" if found else ""
    )
    raise ConfigError(
        f"{_setting(component)}={run!r} is no run's folder{several}: name one that is completed, "
        "as runs/EXPERIMENT/RUN ('rlexp show EXPERIMENT' lists them)"
    )


def _has(paths: RunPaths, digest: str) -> bool:
    try:
        record = read_run(paths).record
    except RlexpError:
        return False
    weights = record.weights
    return weights is not None and _digest(paths, record.spec, weights) == digest


def _digest(paths: RunPaths, spec: RunSpec, weights: str) -> str:
    """What a policy acts with: its final weights, and what is beside them if there is anything."""
    return BESIDE.join((weights, *_beside(paths, spec))).rstrip(BESIDE)


def _beside(paths: RunPaths, spec: RunSpec) -> tuple[str, str]:
    """Digests of the statistics of normalisation, and of settings that are not the usual ones."""
    path = paths.normalisation
    statistics = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    settings = {key: spec.agent[key] for key in ACTING if spec.agent.get(key)}
    clip = (spec.environment.get("vector") or {}).get("clip_observations", USUAL_CLIP)
    if statistics and clip != USUAL_CLIP:
        settings["clip_observations"] = clip
    return statistics, sha256(canonical(settings).encode()).hexdigest() if settings else ""


def _check_beside(paths: RunPaths, spec: RunSpec, digest: str, component: str) -> None:
    statistics, _, settings = digest.partition(BESIDE)[2].partition(BESIDE)
    files = (paths.normalisation, paths.spec)
    found = zip(files, _beside(paths, spec), (statistics, settings), strict=True)
    for file, now, then in found:
        if now != then:
            raise ConfigError(
                f"{file} is not what it was: put it back, or set "
                f"environment.components.{component}.weights=null for a guide as it is now"
            )


def _runs_in(folder: Path) -> list[Path]:
    if not ExperimentPaths(folder).definition.is_file():
        return []
    return sorted(each.parent for each in folder.glob("*/spec.json"))


def _batch(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: np.asarray(value)[None] for key, value in observation.items()}
    return np.asarray(observation)[None]


def _setting(component: str) -> str:
    return f"environment.components.{component}.guide"
