"""`rlexp sync`: pushes to trackers what commands could not."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.app.mirrored import Mirrored, Order, Trackers
from rlexp.app.pushing import place_of
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.sources import group_options
from rlexp.config.validate import build_named
from rlexp.config.words import parse_words
from rlexp.console import Console
from rlexp.errors import ConfigError, RlexpError, did_you_mean
from rlexp.store.cursors import places
from rlexp.store.layout import ExperimentPaths
from rlexp.trackers import Tracker

PENDING = 69
"""Exit code where something could not be pushed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """For how long it is tried."""

    wait: float = 300.0


def sync(words: Sequence[str], wanted: Wanted, workspace: Workspace, console: Console) -> int:
    """Push everything that trackers lack; returns 0 where they lack nothing then.

    Args:
        words: Experiments, none for all; then words about trackers.
        wanted: For how long it is tried.
        workspace: Where the experiments are.
        console: Shows a line for each experiment and tracker.

    Raises:
        RlexpError: There is no such experiment or tracker; nothing was pushed.
    """
    workspace.make_allowed_importable()
    names = [word for word in words if "=" not in word]
    settings = [word for word in words if "=" in word]
    _check_words(settings)
    experiments = [workspace.experiment(name) for name in names] or workspace.layout.experiments()
    rows = [
        row
        for paths in experiments
        for row in _sync(paths, settings, wanted, workspace, named=bool(names))
    ]
    if not rows:
        _tell_nothing(settings, workspace, console)
        return 0
    console.table(rows, ["experiment", "tracker", "place", "pending", "problem"])
    return PENDING if any(row["pending"] or row["problem"] for row in rows) else 0


def _sync(
    paths: ExperimentPaths,
    settings: Sequence[str],
    wanted: Wanted,
    workspace: Workspace,
    *,
    named: bool,
) -> list[dict[str, Any]]:
    """Push one experiment; what is wrong with it stops no other one."""
    try:
        trackers = _trackers(paths, settings, workspace=workspace, named=named)
        if not trackers.built:
            return []
    except RlexpError as error:
        if named:
            raise
        return [_row(paths, "", "", {"problem": str(error), "rows": None})]
    order = Order(trackers=trackers, once=True, wait=wanted.wait)
    mirror = Mirrored(paths, order, workspace, None)
    answers = mirror.finish()
    if mirror.interrupted:
        raise KeyboardInterrupt
    return [
        _row(paths, name, place_of(tracker, paths), answers.get(name))
        for name, tracker in trackers.built.items()
    ]


def _row(
    paths: ExperimentPaths, tracker: str, place: str, answer: Mapping[str, Any] | None
) -> dict[str, Any]:
    told = answer or {"problem": "it did not end in time; give the same command again"}
    return {
        "experiment": paths.name,
        "tracker": tracker,
        "place": place,
        "pending": told.get("rows"),
        "problem": told.get("problem"),
    }


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


def _tell_nothing(settings: Sequence[str], workspace: Workspace, console: Console) -> None:
    known = group_options("tracker", workspace.folder)
    if settings:
        console.show([], ["nothing to push: there is no experiment under runs/"])
        return
    line = "nothing to push: no experiment was mirrored yet; name the trackers with "
    console.show([], [f"{line}tracker=[{','.join(known)}]"])
