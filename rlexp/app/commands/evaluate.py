"""`rlexp evaluate`: plays fresh episodes with the policy that a run ended with."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, ClassVar

from rlexp.app.evaluation.playback import (
    FilmedEpisode,
    Policy,
    Spread,
    check_archives,
    find_policy,
)
from rlexp.app.execution.import_permission import check_imports
from rlexp.app.observer import Observer
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, EnvironmentFault, RecordError, RlexpError
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, FRESH_EVALUATIONS
from rlexp.store.layout import RunPaths
from rlexp.store.runs import read_run

if TYPE_CHECKING:
    from rlexp.app.evaluation.playback import Player

MOST_NAMES = 10
"""Runs that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """What to play.

    Attributes:
        episodes: Number of fresh episodes.
        draw: Which of the sets of fresh seeds.
        deterministic: Whether actions are not sampled; null does as the run's own evaluations.
        checkpoint: The step of a checkpoint; null is the final policy.
        video: Number of episodes that are filmed.
        output: The folder for films; null is `videos/RUN`.
    """

    episodes: int = 100
    draw: int = 0
    deterministic: bool | None = None
    checkpoint: int | None = None
    video: int = 0
    output: str | None = None

    def command(self, run: str, draw: int, allowed: Sequence[str]) -> list[str]:
        """The command that plays the same on another draw."""
        words = ["rlexp", "evaluate", run]
        words += ["--episodes", str(self.episodes)] if self.episodes != 100 else []
        words += ["--draw", str(draw)] if draw else []
        words += ["--stochastic"] if self.deterministic is False else []
        words += ["--checkpoint", str(self.checkpoint)] if self.checkpoint is not None else []
        words += ["--video", str(self.video)] if self.video else []
        words += ["--output", self.output] if self.output is not None else []
        return words + [word for package in allowed for word in ("--allow-import", package)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEvaluation:
    """What a policy of a run reached in fresh episodes, on seeds that no training saw.

    Attributes:
        run: The run (`EXPERIMENT/RUN`).
        algorithm: Its algorithm.
        task: The task.
        checkpoint: Whether the policy is that of a checkpoint, and not the final one.
        step: Environment steps after which the policy was saved.
        weights: The digest of its weights, if that is recorded.
        device: The device that it acted on.
        draw: Which of the sets of fresh seeds was played.
        deterministic: Whether actions were not sampled.
        normalised_observations: Whether observations were normalised as in training.
        n: Number of episodes.
        return_spread: Where the returns lie.
        length_spread: Where the lengths lie, in environment steps.
        returns: The undiscounted return of each episode, of the task's own reward.
        lengths: The length of each episode, in environment steps.
        videos: The films.
        problem: Why a film was not made; the episodes were played all the same.
        next: The commands that make sense now.
    """

    schema: ClassVar[Schema] = Schema("policy-evaluation")

    run: str
    algorithm: str
    task: str
    checkpoint: bool
    step: int
    weights: str | None
    device: str
    draw: int
    deterministic: bool
    normalised_observations: bool
    n: int
    return_spread: Spread
    length_spread: Spread
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    videos: tuple[FilmedEpisode, ...]
    problem: str | None
    next: tuple[NextCommand, ...]


def evaluate(
    run_name: str, request: EvaluationRequest, workspace: Workspace, observer: Observer
) -> PolicyEvaluation:
    """Play fresh episodes with a policy of a run, and film some.

    Raises:
        RlexpError: The run has no such policy, or it cannot be restored or played.
    """
    _check_numbers(request)
    _check_draw(request)
    paths = _find(run_name, workspace)
    record = read_run(paths).record
    refuse_imported_run(record.spec)
    policy = find_policy(paths, record, request.checkpoint)
    name = f"{paths.folder.parent.name}/{paths.folder.name}"
    command = request.command(name, request.draw, workspace.allowed)
    check_imports([record.spec], workspace.allowed, command)
    check_archives(policy, paths)
    workspace.make_allowed_importable()
    # What an environment prints must not end up between the lines of a JSON value.
    with redirect_stdout(sys.stderr), _one_line():
        return _play(name, policy, request, workspace, observer)


def _find(name: str, workspace: Workspace) -> RunPaths:
    """The run of this name, or the only run of the experiment of this name."""
    found = workspace.find(name)
    if isinstance(found, RunPaths):
        return found
    runs = found.runs()
    if len(runs) != 1:
        names = [f"{found.name}/{run.folder.name}" for run in runs]
        told = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
        raise RecordError(
            f"{found.name} is an experiment of {len(runs)} runs; name one of them: {told}"
        )
    return runs[0]


def _play(
    name: str,
    policy: Policy,
    request: EvaluationRequest,
    workspace: Workspace,
    observer: Observer,
) -> PolicyEvaluation:
    """Restore, play and film; trouble with a film costs no result."""
    from rlexp.app.evaluation.playback import restored

    ending = _prepare_films() if request.video else ""
    player = restored(
        policy,
        draw=request.draw,
        deterministic=request.deterministic,
        allowed=workspace.allowed,
    )
    played = player.play(request.episodes, observer)
    films, problem = _film(player, request, _stem(workspace, policy, request), ending)
    more = request.command(name, request.draw + 1, workspace.allowed)
    environment = player.training.environment
    return PolicyEvaluation(
        run=name,
        algorithm=short_name(policy.spec.algorithm),
        task=environment.task,
        checkpoint=policy.checkpoint,
        step=policy.step,
        weights=policy.weights,
        device=str(player.model.device),
        draw=player.draw,
        deterministic=player.deterministic,
        normalised_observations=environment.vector.normalise_observations,
        n=len(played.returns),
        return_spread=Spread.of(played.returns),
        length_spread=Spread.of(played.lengths),
        returns=tuple(played.returns),
        lengths=tuple(played.lengths),
        videos=tuple(films),
        problem=problem,
        next=(NextCommand(why="play other episodes", command=shlex.join(more)),),
    )


@contextmanager
def _one_line() -> Iterator[None]:
    """Show what an environment raises as one line, with its place."""
    try:
        yield
    except RlexpError:
        raise
    except Exception as error:
        frame = extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise EnvironmentFault(
            f"the run's environment fails: {reason} ({Path(frame.filename).name}:{frame.lineno}); "
            "'rlexp doctor --environment …' says more",
        ) from error


def _check_numbers(request: EvaluationRequest) -> None:
    for option, number, least in (
        ("--episodes", request.episodes, 1),
        ("--video", request.video, 0),
    ):
        if number < least:
            raise ConfigError(
                f"{option}={number} is too small: give {least} or more",
                code="out_of_range",
                key=option,
                allowed=[f"{least} or more"],
            )


def _check_draw(request: EvaluationRequest) -> None:
    films = -(-request.video // EVALUATION_ENVIRONMENTS)
    last = FRESH_EVALUATIONS - max(films, 1)
    if not 0 <= request.draw <= last:
        raise ConfigError(
            f"--draw={request.draw} is out of range: draws are 0 … {last}",
            code="out_of_range",
            key="--draw",
            allowed=[f"0 … {last}"],
        )


def _prepare_films() -> str:
    from rlexp.training.camera import without_display
    from rlexp.training.film import ending

    without_display()
    return ending()


def _stem(workspace: Workspace, policy: Policy, request: EvaluationRequest) -> str:
    folder = workspace.folder / (request.output or f"videos/{policy.spec.name}")
    return f"{folder}/step-{policy.step}-draw-{request.draw}"


def _film(
    player: "Player", request: EvaluationRequest, stem: str, ending: str
) -> tuple[list[FilmedEpisode], str | None]:
    """Film episodes; trouble with that costs no result."""
    films: list[FilmedEpisode] = []
    try:
        films.extend(
            player.film(number, Path(f"{stem}-episode-{number}{ending}"))
            for number in range(request.video)
        )
    except RlexpError as error:
        return films, str(error)
    return films, None
