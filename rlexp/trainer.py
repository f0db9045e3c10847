"""What a training script needs to be a run of rlexp (`algorithm=external`): settings, reports, checkpoints.

This module imports the standard library only, so that it works in the virtual environment of any trainer.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

CONFIGURATION = "RLEXP_CONFIGURATION"
RESULTS = "RLEXP_RESULTS"
"""Variables with the names of the two files of a script (`docs/guides/external.md`)."""
CHECKS = "RLEXP_CHECKS"
"""Variable that is set where the script is started to check its settings, and not to train."""
LIKE_A_MISTAKE = 0.8
"""Similarity of two names from which on one may be a mistake for the other, from 0 to 1."""
CHECKED = 79
"""Exit code of a script whose settings were accepted: no program of the system ends with it."""
TEAM = "team"
"""The component of an evaluation of several agents that is the mean return of all agents."""
CHECKPOINT = "checkpoint.json"
"""File in the folder of the run that names the last complete checkpoint."""

MOST_NAMES = 8
"""Names that a message lists."""


class NotARunError(RuntimeError):
    """The script is not executed by rlexp."""


@dataclass(frozen=True, slots=True)
class SavedStep:
    """A checkpoint that an earlier attempt of the run has left.

    Attributes:
        path: The file or folder with the state of the trainer.
        step: Steps of the training until then.
        attempt: The attempt that wrote it.
    """

    path: Path
    step: int
    attempt: int


class AskedSettings(dict[str, Any]):
    """Settings that know which names a script asked for, in a check of the settings."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a setting, or a default."""
        self.asked.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a setting and return its value, or a default."""
        self.asked.add(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The value of a setting; a missing one gets the default."""
        self.asked.add(name)
        return super().setdefault(name, default)

    def __eq__(self, other: object) -> bool:
        return self._all() == other

    __hash__ = None

    def keys(self) -> Any:
        """All names, which are then all marked as read: the use that the caller makes of them is unknown."""
        return self._all().keys()

    def values(self) -> Any:
        """All values; see `keys`."""
        return self._all().values()

    def items(self) -> Any:
        """All names with their values; see `keys`."""
        return self._all().items()

    def copy(self) -> dict[str, Any]:
        """The settings as a plain dictionary; see `keys`."""
        return dict(self._all())

    def __or__(self, other: Any) -> Any:
        return self._all() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._all()

    def _all(self) -> dict[str, Any]:
        """All settings as a plain dictionary. Every name then counts as read."""
        # The methods of the class itself would count what they read.
        settings = dict(dict.items(self))
        self.asked.update(settings)
        return settings

    def misspelt(self) -> tuple[str, str] | None:
        """A setting that the script did not read, and a similar missing name that it read; or None.

        A setting without such a name may be read later, so that it is no mistake for certain.
        """
        names = set(dict.keys(self))
        missing = sorted(self.asked - names)
        for name in sorted(names - self.asked):
            for near in get_close_matches(name, missing, cutoff=LIKE_A_MISTAKE):
                # `gamma` and `gamma_end` are two settings.
                if not (name.startswith(near) or near.startswith(name)):
                    return name, near
        return None


@dataclass(slots=True)
class Trainer:
    """The run that a script executes: what it is to do, and where it reports.

    Attributes:
        configuration: The content of the configuration file.
        results: The results file.
    """

    configuration: Mapping[str, Any]
    results: Path
    _evaluations: int = field(default=0)
    _asked: bool = field(default=False)
    _saved: int = field(default=0)
    _checks: AskedSettings | None = field(default=None)

    @classmethod
    def of_run(cls) -> "Trainer":
        """The run that executes this script.

        Raises:
            NotARunError: The script was started by hand.
        """
        if CONFIGURATION not in os.environ or RESULTS not in os.environ:
            raise NotARunError(
                f"{CONFIGURATION} and {RESULTS} are not set: start the script with "
                "rlexp run algorithm=external algorithm.command='python SCRIPT'"
            )
        content = json.loads(Path(os.environ[CONFIGURATION]).read_text())
        results = Path(os.environ[RESULTS])
        if CHECKS not in os.environ:
            return cls(content, results)
        settings = AskedSettings(content["settings"])
        return cls({**content, "settings": settings}, results, _checks=settings)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The hyperparameters (`algorithm.settings`)."""
        settings: Mapping[str, Any] = self.configuration["settings"]
        return settings

    @property
    def dataset(self) -> Mapping[str, Any] | None:
        """The dataset: its `id`, the `path` that `minari.MinariDataset` opens, `digest`, `reference`.

        None without one (`dataset=minari dataset.id=…`). `reference` has `minimum` and `maximum` where the
        dataset declares reference scores.
        """
        dataset: Mapping[str, Any] | None = self.configuration.get("dataset")
        return dataset

    @property
    def task(self) -> str:
        """The name of the task (`CartPole-v1`)."""
        return str(self.configuration["task"])

    @property
    def seed(self) -> int:
        """The seed of the policy, a number of 32 bits."""
        return int(self.configuration["seed"])

    @property
    def steps(self) -> int:
        """Steps of the whole training (`budget.steps`)."""
        return int(self.configuration["budget"]["steps"])

    @property
    def folder(self) -> Path:
        """The folder for all other files of the script."""
        return Path(self.configuration["folder"])

    @property
    def attempt(self) -> int:
        """The number of the attempt at this run, from 1."""
        return int(self.configuration["run"]["attempt"])

    def check_settings(self, allowed: Iterable[str]) -> None:
        """Refuse a setting that the script does not know, before anything trains.

        Args:
            allowed: The names of all settings (`learning_rate`).

        Raises:
            SystemExit: Names the setting and the nearest names.
        """
        names = sorted(set(allowed))
        for name in self.settings:
            if name not in names:
                raise SystemExit(f"algorithm.settings.{name}: {_no_such('setting', name, names)}")

    def check_components(self, names: Iterable[str]) -> None:
        """Refuse a return of the run (`environment.return_of`) that the script does not report.

        Args:
            names: The names of the components: the agents of the task and `TEAM`.

        Raises:
            SystemExit: Names the allowed components.
        """
        allowed, name = list(names), self.configuration["environment"].get("return_of")
        if name not in allowed:
            raise SystemExit(
                f"environment.return_of={'null' if name is None else name}: {_no_such('component', str(name), allowed)}"
            )

    def make_environment(self, make: Callable[..., Any] | None = None) -> Any:
        """Make an environment of the task, with its arguments and its limit of steps.

        Wrappers (`environment.wrappers`) are not added.

        Args:
            make: `gymnasium.make`, which is the default, or a function with its arguments.

        Raises:
            SystemExit: A module of `environment.imports` is not installed beside the script.
        """
        if make is None:
            import gymnasium

            make = gymnasium.make
        task = self.configuration["environment"]
        for module in task.get("imports", ()):
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise SystemExit(
                    f"environment.imports={module} cannot be imported beside this script: {error}"
                ) from error
        limit = task.get("max_episode_steps")
        limits = {} if limit is None else {"max_episode_steps": limit}
        return make(task.get("id", self.task), **limits, **task.get("arguments", {}))

    def report(self, step: int, **metrics: float) -> None:
        """Report metrics of the learner; without any, the line is a sign of life."""
        self._end_check()
        # JSON holds no numbers of NumPy, PyTorch or JAX.
        numbers = {name: float(value) for name, value in metrics.items()}
        self._write(step, **({"metrics": numbers} if numbers else {}))

    def evaluated(
        self,
        step: int,
        returns: "Sequence[float] | Mapping[str, Sequence[float]]",
        lengths: Sequence[int] | None = None,
        *,
        final: bool = False,
        **measures: Sequence[float | None],
    ) -> None:
        """Report an evaluation that the script has played.

        Args:
            step: Steps of the training so far.
            returns: The undiscounted return of each episode; of several agents or objectives, those of
                each component by name (`environment.return_of` says which is the return of the run).
            lengths: The length of each episode, if known.
            final: Whether it is that of the final policy.
            measures: Further numbers by name, one for each episode (`success`).
        """
        self._end_check()
        line: dict[str, Any] = {
            "returns": {name: _numbers(values) for name, values in returns.items()}
            if isinstance(returns, Mapping)
            else _numbers(returns)
        }
        if lengths is not None:
            line["lengths"] = [int(length) for length in lengths]
        if measures:
            line["measures"] = {
                name: [None if value is None else float(value) for value in values]
                for name, values in measures.items()
            }
        self._write(step, **line, **({"final": True} if final else {}))

    def evaluated_team(
        self, step: int, returns: Mapping[str, Sequence[float]], *, final: bool = False
    ) -> None:
        """Report an evaluation of several agents: of each agent, and of the team, the mean over its agents.

        Args:
            step: Steps of the training so far.
            returns: Of each agent, the return of each episode.
            final: Whether it is that of the final policies.
        """
        self._end_check()
        columns = {name: _numbers(values) for name, values in returns.items()}
        team = [sum(episode) / len(columns) for episode in zip(*columns.values(), strict=True)]
        self.evaluated(step, {TEAM: team, **columns}, final=final)

    def evaluated_front(
        self, step: int, front: Sequence[Mapping[str, Sequence[float]]], *, final: bool = False
    ) -> None:
        """Report the evaluation of a front of policies (`environment.reference_point`).

        Args:
            step: Steps of the training so far.
            front: Of each policy, the returns of its episodes for each objective by name.
            final: Whether it is that of the final policies.
        """
        self._end_check()
        policies = [
            {name: _numbers(values) for name, values in policy.items()} for policy in front
        ]
        self._write(step, front=policies, **({"final": True} if final else {}))

    def evaluate(
        self, environment: Any, act: Callable[[Any], Any], step: int, *, final: bool = False
    ) -> tuple[float, ...]:
        """Play and report an evaluation with the episodes and the seed that the budget asks for.

        Args:
            environment: An environment of Gymnasium, or a function that makes one.
            act: Returns the action of the policy for one observation.
            step: Steps of the training so far.
            final: Whether it is that of the final policy.

        Returns:
            The undiscounted return of each episode. Where a wrapper of Gymnasium records the
            statistics of episodes, they are taken: wrappers outside of it may change rewards.
        """
        self._end_check()
        seed, episodes = self.evaluation(step, final=final)
        # A class of environments has the methods of one.
        is_made = hasattr(environment, "step") and not isinstance(environment, type)
        played = environment if is_made else environment()
        # The first reset gets the seed of the evaluation; later resets continue its stream.
        episodes_played = [
            _play(played, act, seed if episode == 0 else None) for episode in range(episodes)
        ]
        returns = tuple(total for total, _ in episodes_played)
        self.evaluated(step, returns, [length for _, length in episodes_played], final=final)
        return returns

    def evaluation(self, step: int, *, final: bool = False) -> tuple[int, int]:
        """The seed of an evaluation, and the number of its episodes.

        Args:
            step: Steps of the training so far.
            final: Whether it is that of the final policy.
        """
        budget, seeds = self.configuration["budget"], self.configuration["seeds"]["evaluation"]
        every = budget.get("evaluation_every")
        number = -1 if final or not every else min(max(step // every - 1, 0), len(seeds) - 1)
        return seeds[number], budget["final_episodes" if final else "evaluation_episodes"]

    def is_due(self, step: int) -> bool:
        """Whether an evaluation during training is due at `step`, since the last time this was asked."""
        self._end_check()
        self._asked = True
        if not self._is_missing(step):
            return False
        self._evaluations = self._due_by(step)
        return True

    def _is_missing(self, step: int) -> bool:
        """Whether an evaluation during training was due by `step` and was not requested yet."""
        return self._due_by(step) > self._evaluations and step < self.steps

    def _due_by(self, step: int) -> int:
        """How many evaluations during training are due by `step`."""
        every: int | None = self.configuration["budget"].get("evaluation_every")
        return step // every if every else 0

    def checkpoint(self, step: int, save: Callable[[Path], Any]) -> None:
        """Save the state of the trainer, so that a killed run continues from it.

        A kill at any moment leaves the checkpoint before this one or this one, complete. Evaluations that
        are due come first: the next attempt counts those until `step` as played.

        Args:
            step: Steps of the training so far.
            save: Writes the state into the path that it is given; it may add an ending to the path.

        Raises:
            RuntimeError: An evaluation is due at this step, or `save` wrote nothing.
        """
        self._end_check()
        if self._asked and self._is_missing(step):
            raise RuntimeError(
                f"an evaluation is due at step {step}: play it (is_due, evaluate) before the checkpoint"
            )
        earlier = list(self.folder.glob("checkpoint-*"))
        # A name that nothing had before: what an earlier record names stays complete.
        self._saved += 1
        path = self.folder / f"checkpoint-{self.attempt}-{step}-{self._saved}"
        save(path)
        written = [path] if path.exists() else sorted(self.folder.glob(f"{path.name}.*"))
        if not written:
            raise RuntimeError(f"the function wrote nothing into {path}")
        record = {"path": written[0].name, "step": step, "attempt": self.attempt}
        temporary = self.folder / f"{CHECKPOINT}.new"
        temporary.write_text(json.dumps(record))
        # The results first: a checkpoint must not be of a step of which nothing is recorded.
        self._write(step)
        temporary.replace(self.folder / CHECKPOINT)
        for other in earlier:
            _remove(other)

    def restored(self) -> SavedStep | None:
        """The checkpoint from which this attempt continues, or None to train from the first step.

        Call it once, before anything is reported. It needs `algorithm.continues=true`.
        """
        try:
            record = json.loads((self.folder / CHECKPOINT).read_text())
        except FileNotFoundError:
            return None
        saved = SavedStep(self.folder / record["path"], record["step"], record["attempt"])
        self._write(saved.step, continues=saved.attempt)
        self._evaluations = self._due_by(saved.step)
        return saved

    def _end_check(self) -> None:
        """End a process that only checks the settings. A script that reports a step accepted them."""
        if self._checks is None:
            return
        if pair := self._checks.misspelt():
            name, near = pair
            text = (
                f"algorithm.settings.{name}: the script asks for no such setting before its first report; "
                f"did you mean '{near}'? algorithm.checks=false starts the runs without this check"
            )
            _end(1, text)
        self._write(0, checked=True)
        _end(CHECKED)

    def _write(self, step: int, **values: Any) -> None:
        """Append a line; it is complete when this returns."""
        with self.results.open("a") as file:
            file.write(json.dumps({"step": int(step), **values}) + "\n")


def _end(code: int, text: str = "") -> NoReturn:
    """End the process at once: libraries may catch SystemExit, or wait for their threads."""
    if text:
        sys.stderr.write(f"{text}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _no_such(kind: str, name: str, names: Sequence[str]) -> str:
    """That there is no such name, the nearest name, and some of the names, the nearest first."""
    near = get_close_matches(name, names, n=1)
    guess = f"; did you mean '{near[0]}'?" if near else ""
    shown = get_close_matches(name, names, n=MOST_NAMES, cutoff=0.0)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"there is no such {kind}{guess} (there are: {', '.join(shown)}{more})"


def _numbers(values: Sequence[float]) -> list[float]:
    """Numbers that JSON holds; those of NumPy, PyTorch or JAX it does not."""
    return [float(value) for value in values]


def _play(environment: Any, act: Callable[[Any], Any], seed: int | None) -> tuple[float, int]:
    """The return and the length of one episode."""
    observation, _ = environment.reset(seed=seed)
    total, length, done = 0.0, 0, False
    information: Mapping[str, Any] = {}
    while not done:
        observation, reward, terminated, truncated, information = environment.step(
            act(observation)
        )
        total, length = total + float(reward), length + 1
        done = bool(terminated or truncated)
    recorded = information.get("episode")
    if isinstance(recorded, Mapping) and {"r", "l"} <= set(recorded):
        return float(recorded["r"]), int(recorded["l"])
    return total, length


def _remove(path: Path) -> None:
    """Remove a checkpoint; one that cannot be removed does no harm."""
    import shutil
    from contextlib import suppress

    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
