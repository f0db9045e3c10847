"""`rlexp sync`: pushes to trackers what commands could not."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from signal import SIGINT
from typing import Any, ClassVar

from rlexp.app.results import Schema
from rlexp.app.tracking.mirror_client import Mirrored, Order, Trackers
from rlexp.app.tracking.mirror_process import place_of
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.sources import group_options
from rlexp.config.validate import build_named
from rlexp.config.words import parse_words
from rlexp.errors import ConfigError, RlexpError, did_you_mean
from rlexp.store.cursors import places
from rlexp.store.layout import ExperimentPaths
from rlexp.trackers import Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedRow:
    """What a tracker has of an experiment.

    Attributes:
        experiment: The experiment.
        tracker: The name of the tracker; empty where its configuration cannot be read.
        place: The server or folder that the tracker writes to.
        pending: Points that are still to be pushed; null where that is not known.
        problem: Why they could not be pushed.
    """

    experiment: str
    tracker: str
    place: str
    pending: int | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What was pushed to trackers.

    Attributes:
        rows: One for each experiment and tracker.
        trackers: The trackers that can be named where no experiment was mirrored yet; else null.
        interrupted: The signal that ended it (`SIGINT`), if one did.
    """

    schema: ClassVar[Schema] = Schema("pushed")

    rows: tuple[PushedRow, ...]
    trackers: tuple[str, ...] | None
    interrupted: str | None


def sync(words: Sequence[str], workspace: Workspace, *, wait: float = 300.0) -> Pushed:
    """Push everything that trackers lack.

    Args:
        words: Experiments, none for all; then words about trackers.
        workspace: Where the experiments are.
        wait: For how long each experiment is tried, in seconds.

    Raises:
        RlexpError: There is no such experiment or tracker; nothing was pushed.
    """
    workspace.make_allowed_importable()
    names = [word for word in words if "=" not in word]
    settings = [word for word in words if "=" in word]
    _check_words(settings)
    experiments = [workspace.experiment(name) for name in names] or workspace.layout.experiments()
    rows: list[PushedRow] = []
    interrupted = False
    for paths in experiments:
        pushed, interrupted = _sync(paths, settings, wait, workspace, named=bool(names))
        rows += pushed
        if interrupted:
            break
    known = None if rows or settings else tuple(group_options("tracker", workspace.folder))
    return Pushed(
        rows=tuple(rows), trackers=known, interrupted=SIGINT.name if interrupted else None
    )


def _sync(
    paths: ExperimentPaths,
    settings: Sequence[str],
    wait: float,
    workspace: Workspace,
    *,
    named: bool,
) -> tuple[list[PushedRow], bool]:
    """Push one experiment, and whether Ctrl-C ended that; its problems stop no other one."""
    try:
        trackers = _trackers(paths, settings, workspace=workspace, named=named)
        if not trackers.built:
            return [], False
    except RlexpError as error:
        if named:
            raise
        return [_row(paths, "", "", {"problem": str(error), "rows": None})], False
    order = Order(trackers=trackers, once=True, wait=wait)
    mirror = Mirrored(paths, order, workspace, None)
    answers = mirror.finish()
    rows = [
        _row(paths, name, place_of(tracker, paths), answers.get(name))
        for name, tracker in trackers.built.items()
    ]
    return rows, mirror.interrupted


def _row(
    paths: ExperimentPaths, tracker: str, place: str, answer: Mapping[str, Any] | None
) -> PushedRow:
    last = answer or {"problem": "it did not end in time; give the same command again"}
    return PushedRow(
        experiment=paths.name,
        tracker=tracker,
        place=place,
        pending=last.get("rows"),
        problem=last.get("problem"),
    )


def _trackers(
    paths: ExperimentPaths, settings: Sequence[str], *, workspace: Workspace, named: bool
) -> Trackers:
    """Those that words name; else those of the configuration, and those that were used before.

    Of the latter only the names are taken from the records, which may be foreign: a key would be
    sent to whatever server they name.

    Raises:
        ConfigError: One is unknown, or was used at another place than it is set to now.
    """
    if any(word.lstrip("+").startswith("tracker=") for word in settings):
        plain = compose(settings, workspace.folder)[0].plain["tracker"] or {}
        return Trackers(build_named(plain, "tracker", workspace.allowed), plain)
    used = places(paths)
    usual = list(compose([], workspace.folder)[0].plain["tracker"] or {}) if used or named else []
    known = group_options("tracker", workspace.folder)
    chosen = list(dict.fromkeys([*usual, *(name for name, _ in used if name in known)]))
    if not chosen:
        return Trackers()
    plain = compose([f"tracker=[{','.join(chosen)}]", *settings], workspace.folder)[0].plain[
        "tracker"
    ]
    built = build_named(plain, "tracker", workspace.allowed)
    for name in {name for name, _ in used if name in built}:
        _check_place(name, built[name], [place for own, place in used if own == name], paths)
    return Trackers(built, plain)


def _check_place(name: str, tracker: Tracker, used: Sequence[str], paths: ExperimentPaths) -> None:
    now = place_of(tracker, paths)
    if now not in used:
        again = shlex.join(["rlexp", "sync", paths.name, f"tracker=[{name}]"])
        raise ConfigError(
            f"{paths.name} was mirrored by {name} to {used[-1]}, and now {name} is set to {now}: "
            f"name the tracker with its settings, as in '{again} tracker.{name}.…'"
        )


def _check_words(settings: Sequence[str]) -> None:
    """Refuse words about anything else.

    Raises:
        ConfigError: One is.
    """
    for word, parsed in zip(settings, parse_words(settings), strict=True):
        key = parsed.key_or_group
        if key.split(".")[0] != "tracker":
            hint = did_you_mean(key.split(".")[0], ["tracker"])
            raise ConfigError(
                f"{word}: 'rlexp sync' takes experiments and words about trackers, "
                f"as in tracker=[mlflow]{hint}"
            )
