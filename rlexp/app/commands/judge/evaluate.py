"""`rlexp evaluate`: plays fresh episodes with the final policy of a run."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rlexp.app.data_frames import data_frame
from rlexp.app.evaluation.dataset_recording import RecordedPolicy, record_dataset
from rlexp.app.evaluation.ensemble_members import members_of
from rlexp.app.evaluation.playback import (
    FilmedEpisode,
    Policy,
    ReturnStatistics,
    environment_errors,
    find_policies,
    is_lean,
)
from rlexp.app.observer import Observer
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.datasets.writing import new_folder
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, FRESH_EVALUATIONS
from rlexp.records.events import Evaluated
from rlexp.records.film import FilmRecord
from rlexp.records.run import RunRecord
from rlexp.store.films import FOLDER, write_description
from rlexp.store.layout import RunPaths
from rlexp.store.registers.ledger import sum_of_file

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
        ensemble: Whether the completed test runs of an experiment act together.
        record: The id of a Minari dataset that the episodes become; None records none.
    """

    episodes: int = 100
    draw: int = 0
    deterministic: bool | None = None
    checkpoint: int | None = None
    video: int = 0
    output: str | None = None
    ensemble: bool = False
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
        command += ["--ensemble"] if self.ensemble else []
        return command + [word for package in allowed for word in ("--allow-import", package)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEvaluation(Displayed):
    """The returns of a run's policy in fresh episodes, on seeds that no training used.

    Attributes:
        run: The run (`EXPERIMENT/RUN`), or the experiment of an ensemble.
        ensemble: The runs that acted together, by name; null for a single run.
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
        measures: Mean of each measure over the episodes that report it, and the worst mean return
            of a context where episodes had several.
        videos: The videos.
        dataset: The id of the Minari dataset that the episodes became; null without one.
        problem: Why a video could not be made; null if there was no problem. The episodes were
            played in either case.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("policy-evaluation")

    run: str
    ensemble: tuple[str, ...] | None
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
    measures: Mapping[str, float]
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
        new_folder(request.record, "--record")
    name, paths = _find_runs(run_name, request, workspace)
    command = request.command(name, request.draw, workspace.allowed)
    policies = find_policies(paths, request.checkpoint, workspace, command)
    lean = all(map(is_lean, paths))
    # An environment that prints must not corrupt the JSON document on standard output.
    with redirect_stdout(sys.stderr), environment_errors():
        return _play(name, policies, request, workspace, observer, lean=lean)


def _find_runs(
    name: str, request: EvaluationRequest, workspace: Workspace
) -> tuple[str, list[RunPaths]]:
    """The name of what is played, and its runs: one, or those of an ensemble."""
    if request.ensemble:
        if request.video:
            raise ConfigError("--ensemble makes no videos: leave --video out")
        if request.record is not None:
            raise ConfigError("--ensemble records no dataset: leave --record out")
        if request.deterministic is False:
            raise ConfigError(
                "--ensemble joins deterministic actions and samples none: leave --stochastic out"
            )
        target = members_of(name, workspace)
        return target.name, target.runs
    run = _find(name, workspace)
    return f"{run.folder.parent.name}/{run.folder.name}", [run]


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
            f"{match.name} is an experiment with {len(runs)} runs; name one of them: {shown_names}, "
            "or let them act together: --ensemble"
        )
    return runs[0]


def _play(
    name: str,
    policies: Sequence[Policy],
    request: EvaluationRequest,
    workspace: Workspace,
    observer: Observer,
    *,
    lean: bool,
) -> PolicyEvaluation:
    """Restore the policies, play episodes and film some; a failed video loses no result."""
    from rlexp.app.evaluation.playback import join_players, restore_policy

    ending = _prepare_films() if request.video else ""
    players = [
        restore_policy(
            policy,
            draw=request.draw,
            deterministic=request.deterministic,
            allowed=workspace.allowed,
            lean=lean,
        )
        for policy in policies
    ]
    player, policy = join_players(players) if request.ensemble else players[0], policies[0]
    played = _play_and_record(player, policy, request, observer, name)
    films, problem = _film(player, policy, request, _stem(workspace, policy, request), ending)
    more = request.command(name, request.draw + 1, workspace.allowed)
    environment = player.training.environment
    return PolicyEvaluation(
        run=name,
        ensemble=tuple(p.spec.name for p in policies) if request.ensemble else None,
        algorithm=short_name(policy.spec.algorithm),
        task=environment.task,
        checkpoint=policy.checkpoint,
        step=policy.step,
        weights=None if request.ensemble else policy.weights,
        device=str(player.model.device),
        draw=player.draw,
        deterministic=player.deterministic,
        normalised_observations=environment.vector.normalise_observations,
        n=len(played.returns),
        return_spread=ReturnStatistics.of(played.returns),
        length_spread=ReturnStatistics.of(played.lengths),
        returns=tuple(played.returns),
        lengths=tuple(played.lengths),
        measures=_measures(played, policy),
        videos=tuple(films),
        dataset=request.record,
        problem=problem,
        next=(NextCommand(why="play episodes with other seeds", command=shlex.join(more)),),
    )


def _measures(played: "Episodes", policy: Policy) -> Mapping[str, float]:
    """The measures of the episodes, as a record of a run has them."""
    event = Evaluated(
        time=0.0,
        step=policy.step,
        returns=tuple(played.returns),
        lengths=tuple(played.lengths),
        seconds=0.0,
        final=True,
        measures=played.measures,
    )
    return RunRecord(spec=policy.spec, final=event).measures


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
    recorded = RecordedPolicy(run, policy, player)
    (played,) = record_dataset(
        request.record, [recorded], request.episodes, observer, option="--record"
    )
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
