"""`rlexp evaluate`: plays fresh episodes with the policy that a run ended with."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from rlexp.app.imported import refuse_imported_run
from rlexp.app.permission import check_imports
from rlexp.app.policies import Policy, check_archives, find_policy
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import ConfigError, EnvironmentFault, RecordError, RlexpError
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, FRESH_EVALUATIONS
from rlexp.store.layout import RunPaths
from rlexp.store.runs import read_run

if TYPE_CHECKING:
    from rlexp.app.playback import Player

MOST_NAMES = 10
"""Runs that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What to play; `deterministic` is as in the run's own evaluations where it is null."""

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


def evaluate(run_name: str, wanted: Evaluation, workspace: Workspace, console: Console) -> int:
    """Play episodes, film some, show where their returns lie; returns the exit code.

    Raises:
        RlexpError: The run has no such policy, or it cannot be restored, played or filmed.
    """
    _check_draw(wanted)
    paths = _find(run_name, workspace)
    record = read_run(paths).record
    refuse_imported_run(record.spec)
    policy = find_policy(paths, record, wanted.checkpoint)
    name = f"{paths.folder.parent.name}/{paths.folder.name}"
    command = wanted.command(name, wanted.draw, workspace.allowed)
    check_imports([record.spec], workspace.allowed, command)
    check_archives(policy, paths)
    workspace.make_allowed_importable()
    # What an environment prints must not end up between the lines of a JSON value.
    with redirect_stdout(sys.stderr), _one_line():
        result, trouble = _play(policy, wanted, workspace, console)
    result = {"run": name, **result}
    more = wanted.command(name, wanted.draw + 1, workspace.allowed)
    console.show(result, [*_lines(result), f"To play other episodes: {shlex.join(more)}"])
    if trouble is not None:
        raise trouble
    return 0


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
    policy: Policy, wanted: Evaluation, workspace: Workspace, console: Console
) -> tuple[dict[str, Any], RlexpError | None]:
    """Restore, play and film; trouble with a film costs no result."""
    from rlexp.app.playback import restored

    ending = _prepare_films() if wanted.video else ""
    player = restored(
        policy,
        draw=wanted.draw,
        deterministic=wanted.deterministic,
        allowed=workspace.allowed,
    )
    result = {**_describe(policy, player), **player.play(wanted.episodes, console)}
    result["videos"], trouble = _film(player, wanted, _stem(workspace, policy, wanted), ending)
    return result, trouble


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


def _check_draw(wanted: Evaluation) -> None:
    films = -(-wanted.video // EVALUATION_ENVIRONMENTS)
    last = FRESH_EVALUATIONS - max(films, 1)
    if not 0 <= wanted.draw <= last:
        raise ConfigError(f"--draw={wanted.draw} is out of range: draws are 0 … {last}")


def _prepare_films() -> str:
    from rlexp.training.camera import without_display
    from rlexp.training.film import ending

    without_display()
    return ending()


def _stem(workspace: Workspace, policy: Policy, wanted: Evaluation) -> str:
    folder = workspace.folder / (wanted.output or f"videos/{policy.spec.name}")
    return f"{folder}/step-{policy.step}-draw-{wanted.draw}"


def _film(
    player: "Player", wanted: Evaluation, stem: str, ending: str
) -> tuple[list[dict[str, Any]], RlexpError | None]:
    """Film episodes; trouble with that costs no result."""
    films: list[dict[str, Any]] = []
    try:
        films.extend(
            player.film(number, Path(f"{stem}-episode-{number}{ending}"))
            for number in range(wanted.video)
        )
    except RlexpError as error:
        return films, error
    return films, None


def _describe(policy: Policy, player: "Player") -> dict[str, Any]:
    environment = player.training.environment
    return {
        "algorithm": short_name(policy.spec.algorithm),
        "task": environment.task,
        "checkpoint": policy.checkpoint,
        "step": policy.step,
        "weights": policy.weights,
        "device": str(player.model.device),
        "draw": player.draw,
        "deterministic": player.deterministic,
        "normalised_observations": environment.vector.normalise_observations,
    }


def _lines(result: Mapping[str, Any]) -> list[str]:
    what = "checkpoint" if result["checkpoint"] else "final policy"
    acting = "deterministic" if result["deterministic"] else "sampled"
    normalised = (
        "observations normalised by the statistics of training"
        if result["normalised_observations"]
        else "observations not normalised"
    )
    played = f"{result['n']} fresh episodes on seeds of draw {result['draw']}, {acting} actions"
    return [
        result["run"],
        f"  {result['algorithm']} on {result['task']}, {what} at step {result['step']:,}",
        f"  {played}, {normalised}",
        _line("return", result["return"]),
        _line("length", result["length"]),
        f"  n = {result['n']} episodes of one run, which tell nothing about other training seeds",
        *(
            f"  {film['file']}: return {film['return']:,.2f} in {film['length']:,} steps"
            for film in result["videos"]
        ),
    ]


def _line(name: str, values: Mapping[str, float | None]) -> str:
    told = [f"{k.replace('_', ' ')} {v:,.2f}" for k, v in values.items() if v is not None]
    return f"  {name}: {', '.join(told)}"
