"""The workspace that a command works in: its folder, its `runs/`, its cache, its clocks."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.errors import RecordError, did_you_mean
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where a command works, and what it may do there.

    Attributes:
        folder: The folder with `conf/`, `sweeps/` and the user's modules.
        layout: Where `runs/` is.
        allowed: Packages whose classes and environments may be used although records name them.
        handles_signals: Whether signals may be handled: by a command line, and not in a notebook.
    """

    folder: Path
    layout: Layout
    allowed: tuple[str, ...] = field(default=())
    handles_signals: bool = True

    @classmethod
    def here(
        cls,
        allowed: tuple[str, ...] = (),
        *,
        folder: str | os.PathLike[str] = ".",
        handles_signals: bool = True,
    ) -> "Workspace":
        """The workspace in a folder; `RLEXP_RUNS` names another place for `runs/`."""
        folder = Path(folder).absolute()
        runs = Path(os.environ.get("RLEXP_RUNS") or folder / "runs")
        return cls(folder, Layout(runs.absolute()), allowed, handles_signals)

    @property
    def permission(self) -> list[str]:
        """The options that allow the same packages to another command."""
        return [word for package in self.allowed for word in ("--allow-import", package)]

    def make_importable(self) -> None:
        """Let modules in the workspace's folder be imported; installed ones come first."""
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))

    def make_allowed_importable(self) -> None:
        """The same where a package was allowed by the command.

        Else no command that only looks imports from the folder: it may be somebody else's.
        """
        if self.allowed:
            self.make_importable()

    def experiment(self, name: str) -> ExperimentPaths:
        """An experiment that exists.

        Raises:
            RecordError: There is none of that name; says which there are.
        """
        found = {e.name: e for e in self.layout.experiments()}
        wanted = self._inside(name)
        if wanted not in found:
            known = f" (there are: {', '.join(list(found)[:20])})" if found else ""
            raise RecordError(
                f"there is no experiment {wanted!r} under {self.layout.root}"
                f"{did_you_mean(wanted, found)}{known}",
                code="unknown_experiment",
                key=wanted,
                allowed=found,
                command="rlexp ls",
            )
        return found[wanted]

    def run(self, name: str) -> RunPaths:
        """A run that exists, by `experiment/run`, by its name or by an unambiguous part of it.

        Raises:
            RecordError: None or several match; names them.
        """
        experiment, _, part = self._inside(name).rpartition("/")
        if not part:
            raise RecordError(
                "name a run: EXPERIMENT/RUN, or a part of it; see 'rlexp ls'",
                code="unknown_run",
                key=name,
                command="rlexp ls",
            )
        runs = self.experiment(experiment).runs() if experiment else self._runs()
        found = [run for run in runs if part in run.folder.name]
        exact = [run for run in found if run.folder.name == part]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not found:
            raise RecordError(
                f"no run under {self.layout.root} matches {name!r}; see 'rlexp ls'",
                code="unknown_run",
                key=name,
                command="rlexp ls",
            )
        names = [f"{r.folder.parent.name}/{r.folder.name}" for r in found]
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise RecordError(
            f"{name!r} matches {len(found)} runs: {', '.join(names[:5])}{more}; write more of it",
            code="ambiguous_run",
            key=name,
            allowed=names,
        )

    def find(self, name: str) -> ExperimentPaths | RunPaths:
        """An experiment of exactly this name, else the run that it names.

        Raises:
            RecordError: Neither exists, or several runs match.
        """
        experiments = {e.name: e for e in self.layout.experiments()}
        wanted = self._inside(name)
        if not wanted:
            raise RecordError(
                "name an experiment or a run; see 'rlexp ls'",
                code="unknown_experiment",
                key=name,
                command="rlexp ls",
            )
        if wanted in experiments:
            return experiments[wanted]
        if "/" in wanted or any(wanted in run.folder.name for run in self._runs()):
            return self.run(name)
        raise RecordError(
            f"no experiment and no run under {self.layout.root} matches {name!r}"
            f"{did_you_mean(wanted, experiments)}; see 'rlexp ls'",
            code="unknown_experiment",
            key=wanted,
            allowed=experiments,
            command="rlexp ls",
        )

    def _runs(self) -> list[RunPaths]:
        """Every run of every experiment; one that cannot be read hides no other."""
        found: list[RunPaths] = []
        for experiment in self.layout.experiments():
            with suppress(RecordError):
                found += experiment.runs()
        return found

    def _inside(self, name: str) -> str:
        """A name as it stands below `runs/`, from a path to it or from the name itself."""
        wanted = name.rstrip("/").removeprefix(f"{self.layout.root}/")
        return wanted.removeprefix("./").removeprefix("runs/")


def cache_folder() -> Path:
    """Where is kept what all studies of this user have in common, and can do without.

    A user of no home has a place that takes nothing.
    """
    home = os.environ.get("RLEXP_HOME") or os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(home) if home else Path.home() / ".cache"
    except RuntimeError:
        base = Path(os.devnull)
    return base / "rlexp"
