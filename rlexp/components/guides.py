"""Guides: policies of completed runs that act in the training environments of another run."""

import shlex
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
"""Separator between the digests of weights, of normalisation statistics and of settings."""
ACTING = ("activation", "policy_kwargs")
"""Settings of an agent that change the actions of equal weights."""
USUAL_CLIP = 10.0
"""Default clipping of normalised observations."""
MISFIT = "does not fit this run"
"""Part of the error message for parameters that do not fit a policy of this environment."""


def final_weights(run: str, component: str) -> str:
    """Return the digest of the final policy of a run.

    Args:
        run: The folder of the run, or of an experiment with one run.
        component: Name of the component, for errors.

    Raises:
        ConfigError: The run is not completed or has no policy; the message says why.
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
    """Return the final policy of a run, ready to act in `environment`.

    Loading unpickles no file and leaves the global generators unchanged.

    Args:
        run: The folder of the run, or of an experiment with one run.
        weights: The digest that the policy must have, or None.
        environment: The environment to act in; the environment of the run is never created.
        component: Name of the component, for errors.

    Raises:
        ConfigError: The policy does not fit the environment, or has another digest.
    """
    from rlexp.training.environments.rng_state import undisturbed_globals
    from rlexp.training.restore import restore_policy

    paths = _run(run, component, weights)
    try:
        spec = read_spec(paths)
        training = _training(spec, environment)
        with undisturbed_globals():
            learner = restore_policy(
                training,
                paths.model,
                paths.normalisation,
                weights=weights and weights.partition(BESIDE)[0],
            )
        if weights is not None:
            _check_statistics_and_settings(paths, spec, weights, component)
    except (RlexpError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())
        if MISFIT in reason:
            task = spec.environment.get("id", "another task")
            reason = f"its policy, of {task}, has other observations or actions, or is damaged"
        raise ConfigError(f"{_setting(component)}={run!r} cannot guide here: {reason}") from error
    return Guide(learner)


class Guide:
    """A deterministic policy that acts in one episode after the other."""

    def __init__(self, learner: "Learner") -> None:
        self._learner = learner
        # The hidden state of a recurrent policy.
        self._memory: Any = None
        self._starts = True

    def begin(self) -> None:
        """Start an episode: clear the hidden state of a recurrent policy."""
        self._memory, self._starts = None, True

    def act(self, observation: Any) -> Any:
        """Return the action of the policy for an observation."""
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
class _ExistingEnvironment:
    """A task that returns an existing environment, so that a learner can be built on it."""

    environment: Env
    vector: Vector
    task: str = "lent"
    reference: Reference = Reference()  # noqa: RUF009

    def make(self, render: str | None = None, inner: Callable[[Env], Env] | None = None) -> Env:
        """Return the existing environment."""
        del render
        return self.environment if inner is None else inner(self.environment)


def _training(spec: RunSpec, environment: Env) -> Any:
    """Return the parts of the guide's run on an existing environment.

    The environment of that run is not created, so that none of its code is executed.
    """
    from rlexp.config.validate import build, validate_settings
    from rlexp.protocol.budget import Budget, Compute
    from rlexp.training.parts import Training

    vector = validate_settings(Vector, spec.environment.get("vector") or {}, "vector.")
    if vector.frame_stack > 1:
        raise ConfigError(
            "its policy needs stacked frames, which only a vector of environments provides"
        )
    existing: Environment = _ExistingEnvironment(environment, vector)
    return Training(
        agent=build(spec.agent, "agent"),
        algorithm=build(spec.algorithm, "algorithm"),
        environment=existing,
        budget=Budget(**spec.budget),
        compute=Compute(threads=1, device="cpu"),
        streams=spec.streams,
    )


def _run(run: str, component: str, weights: str | None = None) -> RunPaths:
    """Return the run in a folder; of several, the one whose policy has the digest `weights`."""
    folder = Path(run)
    folders = [folder] if RunPaths(folder).spec.is_file() else _runs_in(folder)
    if weights is not None and len(folders) > 1:
        # Runs with equal digests have equal policies, so any one of them will do.
        folders = [each for each in folders if _has(RunPaths(each), weights)][:1] or folders
    if len(folders) == 1:
        return RunPaths(folders[0])
    near = _run_of_short_name(run)
    if near is not None:
        raise ConfigError(
            f"{_setting(component)}={run!r} is no run's folder: type "
            f"{shlex.quote(f'{_setting(component)}={near}')}"
        )
    several = (
        f" (it has: {', '.join(each.name for each in folders[:MOST_NAMED])} …)" if folders else ""
    )
    raise ConfigError(
        f"{_setting(component)}={run!r} is no run's folder{several}: name one that is completed, "
        "as runs/EXPERIMENT/RUN ('rlexp ls EXPERIMENT' lists them)"
    )


def _run_of_short_name(run: str) -> Path | None:
    """The folder of the run that commands find by this name (`EXPERIMENT/ppo-test-0`)."""
    experiment, _, name = run.rpartition("/")
    folders = [
        folder
        for root in ("", "runs")
        for folder in _runs_in(Path(root) / experiment)
        if experiment and folder.name.startswith(name)
    ]
    return folders[0] if len(folders) == 1 else None


def _has(paths: RunPaths, digest: str) -> bool:
    try:
        record = read_run(paths).record
    except RlexpError:
        return False
    weights = record.weights
    return weights is not None and _digest(paths, record.spec, weights) == digest


def _digest(paths: RunPaths, spec: RunSpec, weights: str) -> str:
    """Return the digests of weights, statistics and settings of a policy, joined by `BESIDE`."""
    return BESIDE.join((weights, *_other_digests(paths, spec))).rstrip(BESIDE)


def _other_digests(paths: RunPaths, spec: RunSpec) -> tuple[str, str]:
    """Return the digests of normalisation statistics and of settings other than the defaults."""
    path = paths.normalisation
    statistics = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    # Default settings add nothing, so that the digest of most policies is that of their weights.
    settings = {key: spec.agent[key] for key in ACTING if spec.agent.get(key)}
    clip = (spec.environment.get("vector") or {}).get("clip_observations", USUAL_CLIP)
    if statistics and clip != USUAL_CLIP:
        settings["clip_observations"] = clip
    return statistics, sha256(canonical(settings).encode()).hexdigest() if settings else ""


def _check_statistics_and_settings(
    paths: RunPaths, spec: RunSpec, digest: str, component: str
) -> None:
    statistics, _, settings = digest.partition(BESIDE)[2].partition(BESIDE)
    files = (paths.normalisation, paths.spec)
    digests = zip(files, _other_digests(paths, spec), (statistics, settings), strict=True)
    for file, now, then in digests:
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
