"""`rlexp evaluate`: plays fresh episodes with a run's policy and shows their returns."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.exit_codes import MISTAKE
from rlexp.cli.options import (
    AllowImport,
    Json,
    RunName,
    console_for,
    current_workspace,
    observer_for,
    show_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.judge.evaluate import PolicyEvaluation
    from rlexp.app.evaluation.playback import ReturnStatistics


def evaluate(
    run_name: RunName,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Number of episodes.")] = 100,
    draw: Annotated[int, typer.Option("--draw", min=0, help="Number of the seed set.")] = 0,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions.")] = False,
    checkpoint: Annotated[
        int | None,
        typer.Option("--checkpoint", help="Play the checkpoint at this step; default: final."),
    ] = None,
    video: Annotated[int, typer.Option("--video", min=0, help="Number of videos.")] = 0,
    output: Annotated[str | None, typer.Option("--output", help="Folder for videos.")] = None,
    ensemble: Annotated[
        bool,
        typer.Option("--ensemble", help="Let all test runs of an experiment act together."),
    ] = False,
    record: Annotated[
        str | None,
        typer.Option("--record", help="Id of a Minari dataset to write the episodes into."),
    ] = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Play fresh episodes with the final policy of a run, or of several.

    The episodes have seeds that no training used.
    """
    from rlexp.app.commands.judge.evaluate import EvaluationRequest
    from rlexp.app.commands.judge.evaluate import evaluate as use_case

    request = EvaluationRequest(
        episodes=episodes,
        draw=draw,
        deterministic=None if not stochastic else False,
        checkpoint=checkpoint,
        video=video,
        output=output,
        ensemble=ensemble,
        record=record,
    )
    console = console_for(as_json=as_json)
    evaluation = use_case(
        run_name, request, current_workspace(allow_import), observer_for(console)
    )
    show_result(evaluation, console, evaluation_lines)
    if evaluation.problem is not None:
        console.error(evaluation.problem)
        raise typer.Exit(MISTAKE)


def evaluation_lines(evaluation: "PolicyEvaluation") -> "Iterator[str]":
    """The policy, the distribution of returns and lengths, and the videos, as lines."""
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_score

    policy = "checkpoint" if evaluation.checkpoint else "final policy"
    if evaluation.ensemble is not None:
        policy = f"ensemble of {len(evaluation.ensemble)} runs, {policy} each"
    acting = "deterministic" if evaluation.deterministic else "sampled"
    normalised = (
        "observations normalised by the statistics of training"
        if evaluation.normalised_observations
        else "observations not normalised"
    )
    episodes = f"{evaluation.n} fresh episodes, seed set {evaluation.draw}"
    yield evaluation.run
    yield (f"  {evaluation.algorithm} on {evaluation.task}, {policy} at step {evaluation.step:,}")
    yield f"  {episodes}, {acting} actions, {normalised}"
    yield _spread_line("return", evaluation.return_spread)
    yield _spread_line("length", evaluation.length_spread)
    for name, mean in evaluation.measures.items():
        yield f"  {name}: {format_score(mean)}"
    policies = "one run" if evaluation.ensemble is None else "one ensemble"
    yield f"  n = {evaluation.n} episodes of {policies}; other training seeds may give other returns"
    for film in evaluation.videos:
        yield f"  {film.file}: return {format_score(film.episode_return)} in {film.length:,} steps"
    if evaluation.dataset is not None:
        yield f"  recorded as the dataset {evaluation.dataset}: dataset=minari dataset.id={evaluation.dataset}"
    yield from next_lines(evaluation.next)


def _spread_line(name: str, spread: "ReturnStatistics") -> str:
    from dataclasses import asdict

    from rlexp.text import format_score

    values = [
        f"{k.replace('_', ' ')} {format_score(v)}"
        for k, v in asdict(spread).items()
        if v is not None
    ]
    return f"  {name}: {', '.join(values)}"
