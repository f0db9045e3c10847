"""The workspace of a command: its folder, its `runs/`, and the cache of the user."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.errors import RecordError, did_you_mean
from rlexp.store.former_names import names_of
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder in which a command works, and its permissions.

    Attributes:
        folder: The folder with `conf/`, `sweeps/` and the user's modules.
        layout: The paths under `runs/`.
        allowed: Packages whose classes and environments may be imported because records name them.
        handles_signals: Whether signal handlers may be set: true for a command line, false in a
            notebook.
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
        """The workspace in a folder; the variable `RLEXP_RUNS` replaces the folder `runs/`."""
        folder = Path(folder).absolute()
        runs = Path(os.environ.get("RLEXP_RUNS") or folder / "runs")
        return cls(folder, Layout(runs.absolute()), allowed, handles_signals)

    @property
    def permission(self) -> list[str]:
        """The `--allow-import` options that give another command the same permissions."""
        return [word for package in self.allowed for word in ("--allow-import", package)]

    def make_importable(self) -> None:
        """Add the workspace's folder to the end of `sys.path`: installed modules come first."""
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))

    def make_allowed_importable(self) -> None:
        """Make the workspace importable if the command allows a package.

        Without `--allow-import`, commands that only read records must not execute code from the
        folder, because it may come from another person.
        """
        if self.allowed:
            self.make_importable()

    def experiment(self, name: str) -> ExperimentPaths:
        """The paths of an existing experiment.

        Raises:
            RecordError: There is no experiment of this name; the message lists the existing ones.
        """
        experiments = {e.name: e for e in self.layout.experiments()}
        requested = self._inside(name)
        if requested not in experiments:
            self.check_former_name(requested)
            first = ", ".join(list(experiments)[:20])
            existing = f" (there are: {first})" if experiments else "; see 'rlexp ls'"
            raise RecordError(
                f"there is no experiment {requested!r} under {self.layout.root}"
                f"{did_you_mean(requested, experiments)}{existing}",
                code="unknown_experiment",
                key=requested,
                allowed=experiments,
                command="rlexp ls",
            )
        return experiments[requested]

    def new_experiment(self, name: str) -> ExperimentPaths:
        """The paths of an experiment that does not exist yet.

        Raises:
            ConfigError: The name cannot be that of a folder.
            RecordError: The name is taken.
        """
        paths = self.layout.experiment(self._inside(name))
        if os.path.lexists(paths.folder):
            raise RecordError(
                f"{paths.folder} exists already; choose another name; to see the names that are "
                "taken: rlexp ls",
                command="rlexp ls",
            )
        return paths

    def run(self, name: str) -> RunPaths:
        """The paths of an existing run, from `experiment/run` or an unambiguous part of its name.

        Raises:
            RecordError: No run matches, or several do; the message lists them.
        """
        experiment, _, part = self._inside(name).rpartition("/")
        if not part:
            raise RecordError(
                "name a run as EXPERIMENT/RUN, or by a part of its name; 'rlexp ls' lists "
                "experiments",
                code="unknown_run",
                key=name,
                command="rlexp ls",
            )
        runs = self.experiment(experiment).runs() if experiment else self._runs()
        matches = [run for run in runs if part in run.folder.name]
        # A full name wins: it may also be a part of a longer name.
        exact = [run for run in matches if run.folder.name == part]
        if len(exact or matches) == 1:
            return (exact or matches)[0]
        if not matches and not experiment and part in {e.name for e in self.layout.experiments()}:
            raise RecordError(
                f"{part} is an experiment, and a run is needed: name one as {part}/RUN; to list them: "
                f"rlexp ls {part}",
                code="unknown_run",
                key=name,
                command=f"rlexp ls {part}",
            )
        if not matches:
            raise RecordError(
                f"no run under {self.layout.root} matches {name!r}; see 'rlexp ls'",
                code="unknown_run",
                key=name,
                command="rlexp ls",
            )
        # Runs of several experiments may have the same whole name.
        fitting = exact or matches
        names = [f"{r.folder.parent.name}/{r.folder.name}" for r in fitting]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise RecordError(
            f"{name!r} is ambiguous, because it fits {len(names)} runs: {', '.join(names[:3])}{more}; "
            f"write more of the name, as in {names[0]}",
            code="ambiguous_run",
            key=name,
            allowed=names,
        )

    def find(self, name: str) -> ExperimentPaths | RunPaths:
        """The paths of the experiment of exactly this name, else of the run that matches it.

        Raises:
            RecordError: No experiment and no run matches, or several runs do.
        """
        experiments = {e.name: e for e in self.layout.experiments()}
        requested = self._inside(name)
        if not requested:
            raise RecordError(
                "name an experiment or a run; 'rlexp ls' lists experiments",
                code="unknown_experiment",
                key=name,
                command="rlexp ls",
            )
        if requested in experiments:
            return experiments[requested]
        if "/" in requested or any(requested in run.folder.name for run in self._runs()):
            return self.run(name)
        self.check_former_name(requested)
        raise RecordError(
            f"no experiment and no run under {self.layout.root} matches {name!r}"
            f"{did_you_mean(requested, experiments)}; see 'rlexp ls'",
            code="unknown_experiment",
            key=requested,
            allowed=experiments,
            command="rlexp ls",
        )

    def check_former_name(self, name: str) -> None:
        """Refuse a name that an experiment had before `rlexp mv`.

        Raises:
            RecordError: An experiment had the name; the message has its present name.
        """
        for experiment in self.layout.experiments():
            if name in names_of(experiment)[:-1]:
                raise RecordError(
                    f"experiment {name} is now {experiment.name}: give that name",
                    code="unknown_experiment",
                    key=name,
                    allowed=[experiment.name],
                )

    def _runs(self) -> list[RunPaths]:
        """The runs of all experiments; an experiment that cannot be read is skipped."""
        runs: list[RunPaths] = []
        for experiment in self.layout.experiments():
            with suppress(RecordError):
                runs += experiment.runs()
        return runs

    def _inside(self, name: str) -> str:
        """The name relative to `runs/`; a path is accepted, so that a shell can complete it."""
        relative = name.rstrip("/").removeprefix(f"{self.layout.root}/")
        return relative.removeprefix("./").removeprefix("runs/")
