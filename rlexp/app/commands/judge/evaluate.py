"""`rlexp evaluate`: plays fresh episodes with the final policy of a run."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, ClassVar

from rlexp.app.data_frames import data_frame
from rlexp.app.evaluation.playback import (
    FilmedEpisode,
    Policy,
    ReturnStatistics,
    check_archives,
    find_policy,
)
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.observer import Observer
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.reading.provenance import settings_of
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.datasets.minari_files import ORIGIN
from rlexp.datasets.writing import new_folder, write_dataset
from rlexp.errors import ConfigError, EnvironmentFault, RecordError, RlexpError
from rlexp.protocol.budget import LEAN
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, FRESH_EVALUATIONS
from rlexp.records.film import FilmRecord
from rlexp.store.films import FOLDER, write_description
from rlexp.store.layout import RunPaths
from rlexp.store.registers.ledger import sum_of_file
from rlexp.store.runs import read_run

if TYPE_CHECKING:
    from pandas import DataFrame

    from rlexp.app.evaluation.playback import Player
    from rlexp.training.evaluate import Episodes

PLAYED_POLICY = ("run", "algorithm", "task", "step", "draw", "deterministic")
"""The columns that name the policy, in a data frame of its episodes."""
MOST_NAMES = 10
"""Longest list of runs in an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """The policy to play, and the episodes.

    Attributes:
        episodes: Number of fresh episodes.
        draw: Number of the seed set.
        deterministic: Whether actions are deterministic; None acts as in the run's evaluations.
        checkpoint: The step of a checkpoint; None is the final policy.
        video: Number of episodes to film.
        output: The folder for videos; None is `videos/RUN`.
        record: The id of a Minari dataset that the episodes become; None records none.
    """

    episodes: int = 100
    draw: int = 0
    deterministic: bool | None = None
    checkpoint: int | None = None
    video: int = 0
    output: str | None = None
    record: str | None = None

    def command(self, run: str, draw: int, allowed: Sequence[str]) -> list[str]:
        """The command that plays the same policy with the seed set `draw`."""
        command = ["rlexp", "evaluate", run]
        command += ["--episodes", str(self.episodes)] if self.episodes != 100 else []
        command += ["--draw", str(draw)] if draw else []
        command += ["--stochastic"] if self.deterministic is False else []
        command += ["--checkpoint", str(self.checkpoint)] if self.checkpoint is not None else []
        command += ["--video", str(self.video)] if self.video else []
        command += ["--output", self.output] if self.output is not None else []
        return command + [word for package in allowed for word in ("--allow-import", package)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEvaluation(Displayed):
    """The returns of a run's policy in fresh episodes, on seeds that no training used.

    Attributes:
        run: The run (`EXPERIMENT/RUN`).
        algorithm: The algorithm of the run.
        task: The task of the run.
        checkpoint: Whether the policy comes from a checkpoint; false for the final policy.
        step: Environment steps of training before the policy was saved.
        weights: The digest of its weights; null if it is not recorded.
        device: The device on which the policy acted.
        draw: Number of the seed set.
        deterministic: Whether actions were deterministic; false if they were sampled.
        normalised_observations: Whether observations were normalised as in training.
        n: Number of episodes.
        return_spread: The distribution of returns.
        length_spread: The distribution of lengths, in environment steps.
        returns: The undiscounted return of each episode, in the task's original reward.
        lengths: The length of each episode, in environment steps.
        videos: The videos.
        dataset: The id of the Minari dataset that the episodes became; null without one.
        problem: Why a video could not be made; null if there was no problem. The episodes were
            played in either case.
        next: Suggested next commands.
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
    return_spread: ReturnStatistics
    length_spread: ReturnStatistics
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    videos: tuple[FilmedEpisode, ...]
    dataset: str | None
    problem: str | None
    next: tuple[NextCommand, ...]

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each episode.

        Raises:
            ConfigError: pandas is not installed.
        """
        policy = {name: getattr(self, name) for name in PLAYED_POLICY}
        played = enumerate(zip(self.returns, self.lengths, strict=True))
        rows = [{**policy, "episode": n, "return": r, "length": k} for n, (r, k) in played]
        return data_frame(rows, (*PLAYED_POLICY, "episode", "return", "length"))


def evaluate(
    run_name: str, request: EvaluationRequest, workspace: Workspace, observer: Observer
) -> PolicyEvaluation:
    """Play fresh episodes with a policy of a run, and film some.

    Raises:
        RlexpError: The run has no such policy, or the policy cannot be restored or played.
    """
    _check_numbers(request)
    _check_draw(request)
    if request.record is not None:
        new_folder(request.record)
    paths = _find(run_name, workspace)
    record = read_run(paths).record
    refuse_imported_run(record.spec)
    policy = find_policy(paths, record, request.checkpoint)
    lean = _is_lean(paths)
    name = f"{paths.folder.parent.name}/{paths.folder.name}"
    command = request.command(name, request.draw, workspace.allowed)
    check_imports([record.spec], workspace.allowed, command)
    # Archives are checked before anything of the workspace is imported.
    check_archives(policy, paths)
    workspace.make_allowed_importable()
    # An environment that prints must not corrupt the JSON document on standard output.
    with redirect_stdout(sys.stderr), _environment_errors():
        return _play(name, policy, request, workspace, observer, lean=lean)


def _is_lean(paths: RunPaths) -> bool:
    """Whether the last attempt of the run was given with `compute.lean=true`, the default."""
    attempts = paths.attempts()
    return not attempts or settings_of(attempts[-1]).get(LEAN) is not False


def _find(name: str, workspace: Workspace) -> RunPaths:
    """The run of this name, or the only run of the experiment of this name.

    Raises:
        RecordError: The experiment has several runs, or there is no match.
    """
    match = workspace.find(name)
    if isinstance(match, RunPaths):
        return match
    runs = match.runs()
    if len(runs) != 1:
        names = [f"{match.name}/{run.folder.name}" for run in runs]
        shown_names = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
        raise RecordError(
            f"{match.name} is an experiment with {len(runs)} runs; name one of them: {shown_names}"
        )
    return runs[0]


def _play(
    name: str,
    policy: Policy,
    request: EvaluationRequest,
    workspace: Workspace,
    observer: Observer,
    *,
    lean: bool,
) -> PolicyEvaluation:
    """Restore the policy, play episodes and film some; a failed video loses no result."""
    from rlexp.app.evaluation.playback import restore_policy

    ending = _prepare_films() if request.video else ""
    player = restore_policy(
        policy,
        draw=request.draw,
        deterministic=request.deterministic,
        allowed=workspace.allowed,
        lean=lean,
    )
    played = _play_and_record(player, policy, request, observer, name)
    films, problem = _film(player, policy, request, _stem(workspace, policy, request), ending)
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
        return_spread=ReturnStatistics.of(played.returns),
        length_spread=ReturnStatistics.of(played.lengths),
        returns=tuple(played.returns),
        lengths=tuple(played.lengths),
        videos=tuple(films),
        dataset=request.record,
        problem=problem,
        next=(NextCommand(why="play episodes with other seeds", command=shlex.join(more)),),
    )


@contextmanager
def _environment_errors() -> Iterator[None]:
    """Turn an exception of the environment into a one-line error with its file and line.

    Raises:
        EnvironmentFault: The environment raised an exception.
    """
    try:
        yield
    except RlexpError:
        raise
    except Exception as error:
        frame = extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise EnvironmentFault(
            f"the run's environment fails: {reason} ({Path(frame.filename).name}:{frame.lineno}); "
            "for details: rlexp doctor --environment NAME",
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
    # A video has the seed of the environment with its number; more videos than environments use
    # seeds of the following draws, which must exist, too.
    films = -(-request.video // EVALUATION_ENVIRONMENTS)
    last = FRESH_EVALUATIONS - max(films, 1)
    if not 0 <= request.draw <= last:
        raise ConfigError(
            f"--draw={request.draw} is out of range: draws are 0 … {last}",
            code="out_of_range",
            key="--draw",
            allowed=[f"0 … {last}"],
        )


def _play_and_record(
    player: "Player", policy: Policy, request: EvaluationRequest, observer: Observer, run: str
) -> "Episodes":
    """Play the episodes, and write them as a dataset where that was asked for."""
    if request.record is None:
        return player.play(request.episodes, observer)
    from rlexp.environments import Stage
    from rlexp.environments.composed import at_stage
    from rlexp.training.episode_recording import WithRecording

    recorded = WithRecording(at_stage(player.training.environment, Stage.EVALUATION))
    played = player.play(request.episodes, observer, recorded)
    spec = policy.spec
    origin = {
        "run": run,
        "id": spec.id,
        "phase": str(spec.phase),
        "seed": spec.seed,
        "step": policy.step,
        "weights": policy.weights,
        "draw": player.draw,
        "deterministic": player.deterministic,
    }
    metadata = {"algorithm_name": short_name(spec.algorithm), ORIGIN: {"policies": [origin]}}
    # Made again: the environments that were played have wrappers of the evaluation.
    with closing(recorded.environment.make()) as bare:
        folder = new_folder(request.record)
        write_dataset(folder, request.record, recorded.episodes(), bare, metadata)
    return played


def _prepare_films() -> str:
    from rlexp.training.episode_video import without_display
    from rlexp.training.video_file import ending

    without_display()
    return ending()


def _stem(workspace: Workspace, policy: Policy, request: EvaluationRequest) -> str:
    folder = workspace.folder / (request.output or f"{FOLDER}/{policy.spec.name}")
    return f"{folder}/step-{policy.step}-draw-{request.draw}"


def _film(
    player: "Player", policy: Policy, request: EvaluationRequest, stem: str, ending: str
) -> tuple[list[FilmedEpisode], str | None]:
    """Film episodes; returns the videos and the error of the first video that failed."""
    films: list[FilmedEpisode] = []
    try:
        for number in range(request.video):
            film = player.film(number, Path(f"{stem}-episode-{number}{ending}"))
            films.append(film)
            _describe(film, number, player, policy)
    except RlexpError as error:
        return films, str(error)
    return films, None


def _describe(film: FilmedEpisode, number: int, player: "Player", policy: Policy) -> None:
    """Write beside a video what it shows, for the page of a report.

    Raises:
        RecordError: The description cannot be written.
    """
    description = FilmRecord(
        sum=sum_of_file(film.file) or "",
        weights=policy.weights,
        step=policy.step,
        checkpoint=policy.checkpoint,
        draw=player.draw,
        episode=number,
        deterministic=player.deterministic,
        episode_return=film.episode_return,
        length=film.length,
    )
    try:
        write_description(film.file, description)
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot describe {film.file} for reports: {error}") from error
