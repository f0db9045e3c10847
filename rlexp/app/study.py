"""The study that a command works in: its folder, its `runs/`, its cache, its clocks."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.errors import RecordError
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths


@dataclass(frozen=True, slots=True)
class Study:
    """Where a command works."""

    folder: Path
    layout: Layout
    allowed: tuple[str, ...] = field(default=())

    @classmethod
    def here(cls, allowed: tuple[str, ...] = ()) -> "Study":
        """The study in the current folder; `RLEXP_RUNS` names another place for `runs/`."""
        folder = Path.cwd()
        runs = Path(os.environ.get("RLEXP_RUNS") or folder / "runs")
        return cls(folder, Layout(runs.absolute()), allowed)

    def experiment(self, name: str) -> ExperimentPaths:
        """An experiment that exists.

        Raises:
            RecordError: There is none of that name; says which there are.
        """
        from rlexp.errors import did_you_mean

        names = [e.name for e in self.layout.experiments()]
        name = name.rstrip("/").removeprefix("runs/")
        if name not in names:
            known = f" (there are: {', '.join(names[:20])})" if names else ""
            raise RecordError(
                f"there is no experiment {name!r} under {self.layout.root}"
                f"{did_you_mean(name, names)}{known}",
            )
        return self.layout.experiment(name)

    def run(self, name: str) -> RunPaths:
        """A run that exists, by `experiment/run`, by its name or by an unambiguous part of it.

        Raises:
            RecordError: None or several match; names them.
        """
        wanted = name.rstrip("/").removeprefix("runs/")
        experiment, _, part = wanted.rpartition("/")
        places = [self.experiment(experiment)] if experiment else self.layout.experiments()
        found = [run for place in places for run in place.runs() if part in run.folder.name]
        exact = [run for run in found if run.folder.name == part]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not found:
            raise RecordError(f"no run under {self.layout.root} matches {name!r}; see 'rlexp ls'")
        names = ", ".join(f"{r.folder.parent.name}/{r.folder.name}" for r in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise RecordError(f"{name!r} matches {len(found)} runs: {names}{more}; write more of it")
