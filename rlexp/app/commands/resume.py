"""`rlexp resume`: brings what is unfinished to its end, as a repeat of its command would."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rlexp.app.commands.run import Options as RunOptions
from rlexp.app.commands.run import bring_to_end
from rlexp.app.commands.sweep import UNTIL, bring_sweep_to_end, has_work
from rlexp.app.commands.sweep import Options as SweepOptions
from rlexp.app.recorded import Recorded, read_recorded
from rlexp.app.resume_request import asked_of_sweep, check_words, requests
from rlexp.app.signals import CODES
from rlexp.app.survey import Survey, survey
from rlexp.app.sweep_state import Closed
from rlexp.app.sweep_state import resume as take_up
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.console.gathering import Gathering
from rlexp.engine.sweeping import Stage
from rlexp.errors import RecordError, RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.spec import RunSpec
from rlexp.reports.sentences import counted
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import holder, is_held
from rlexp.store.runs import read_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a command was told besides its target and its words."""

    dry_run: bool = False
    retry: bool = False
    allow_drift: bool = False


def resume(words: Sequence[str], options: Options, workspace: Workspace, console: Console) -> int:
    """Bring an experiment, a run, or everything that is unfinished to its end.

    Args:
        words: The target, or none for everything; then words about executor and checkpoints.
        options: What the command was told besides.
        workspace: Where it is.
        console: Shows plans, runs and summaries; as JSON, one list of the summaries.

    Returns:
        The exit code: of several experiments, the first that is not 0.

    Raises:
        RlexpError: There is no such target, or something is wrong with it; nothing was started.
    """
    workspace.make_allowed_importable()
    target, rest = _split(words, workspace)
    shown = Gathering(quiet=console.quiet) if console.as_json else console
    resumption = _Resumption(tuple(rest), options, workspace, shown)
    try:
        return resumption.all() if target is None else resumption.one(target)
    finally:
        if isinstance(shown, Gathering):
            console.json(shown.values)


def _split(words: Sequence[str], workspace: Workspace) -> tuple[str | None, Sequence[str]]:
    """The target, if words begin with one, and what stands after it."""
    if not words:
        return None, words
    is_target = "=" not in words[0] or (workspace.layout.root / words[0]).exists()
    return (words[0], words[1:]) if is_target else (None, words)


@dataclass(frozen=True, slots=True)
class _Resumption:
    """One command, and where it is given."""

    words: tuple[str, ...]
    options: Options
    workspace: Workspace
    console: Console

    def one(self, target: str) -> int:
        """Bring an experiment or a run to its end."""
        found = self.workspace.find(target)
        if isinstance(found, RunPaths):
            return self._run(found)
        return self._experiment(survey(found))

    def all(self) -> int:
        """Bring every experiment to its end that is not, one after the other."""
        check_words(self.words)
        codes, places = list[int](), self.workspace.layout.experiments()
        for place in places:
            try:
                code = self._if_unfinished(place)
            except RlexpError as error:
                self.console.error(f"{place.name}: {error}")
                code = error.exit_code
            codes += [] if code is None else [code]
            if code is not None and code in CODES.values():
                return code
        if not codes:
            told = f"nothing to continue: {counted(len(places), 'experiment')} under runs/"
            self._say(f"{told}, none of them unfinished" if places else "nothing to continue")
        return next(filter(None, codes), 0)

    def _if_unfinished(self, place: ExperimentPaths) -> int | None:
        """The exit code, or nothing where nothing was to be done."""
        if is_held(place.lock):
            self._say(f"{place.name} is left to the command that drives it: {holder(place.lock)}")
            return None
        found = survey(place)
        if found.experiment is None:
            raise RecordError(str(found.problem))
        recorded = read_recorded(found)
        if not _is_unfinished(found, found.experiment, recorded, self):
            return None
        return self._experiment(found)

    def _experiment(self, found: Survey) -> int:
        recorded = read_recorded(found)
        if found.experiment is not None and found.experiment.sweep is not None:
            return self._sweep(found, recorded)
        code = self._phases(found, recorded)
        if found.paths.adaptive.exists():
            again = shlex.join(["rlexp", "compare", found.paths.name, "--adaptive"])
            self._say(f"Its looks are made by its own command: {again} …")
        return code

    def _run(self, paths: RunPaths) -> int:
        found = survey(ExperimentPaths(paths.folder.parent))
        if found.experiment is not None and found.experiment.sweep is not None:
            whole = shlex.join(["rlexp", "resume", found.paths.name, *self.words])
            raise RecordError(
                f"run {paths.folder.name} belongs to a sweep, which decides how far its runs go; "
                f"continue that: {whole}"
            )
        return self._phases(found, read_recorded(found), read_spec(paths))

    def _phases(self, found: Survey, recorded: Recorded, only: RunSpec | None = None) -> int:
        name = found.paths.name if only is None else f"{found.paths.name}/{only.name}"
        command = self._command(name)
        options = RunOptions(
            dry_run=self.options.dry_run,
            retry=self.options.retry,
            allow_drift=self.options.allow_drift,
        )
        codes = []
        for request in requests(found, recorded, self.words, self.workspace, command, only):
            codes.append(bring_to_end(request, command, options, self.workspace, self.console))
            if codes[-1] in CODES.values():
                return codes[-1]
        return max(codes)

    def _sweep(self, found: Survey, recorded: Recorded) -> int:
        command = self._command(found.paths.name)
        asked, again, left_out = asked_of_sweep(
            found, recorded, self.words, self.workspace, command
        )
        if left_out:
            self._say(
                f"left out of its command, for a record does not say how this machine is used: "
                f"{shlex.join(left_out)}; give it again where you want it"
            )
        options = SweepOptions(
            dry_run=self.options.dry_run,
            retry=self.options.retry,
            allow_drift=self.options.allow_drift,
            until=_until(recorded),
        )
        return bring_sweep_to_end(asked, again, options, self.workspace, self.console)

    def _command(self, name: str) -> tuple[str, ...]:
        drift = ["--allow-drift"] if self.options.allow_drift else []
        return ("rlexp", "resume", name, *self.words, *drift, *self.workspace.permission)

    def _say(self, text: str) -> None:
        """Say what is no result: beside JSON, on standard error."""
        (self.console.note if self.console.as_json else self.console.line)(text)


def _until(recorded: Recorded) -> Stage:
    """The stage that the last command was told to stop after."""
    word = recorded.settings.get("until")
    return Stage(word) if word in UNTIL else Stage.TEST


def _is_unfinished(
    found: Survey, experiment: Experiment, recorded: Recorded, resumption: _Resumption
) -> bool:
    """Whether a run is missing, or a sweep has something to decide."""
    retry = resumption.options.retry
    if experiment.imported is not None:
        return False
    if experiment.sweep is None:
        planned = [f.stored.record for f in found.runs if f.planned and f.stored]
        return any(record.may_run(retry=retry) for record in planned)
    runs = [f.stored for f in found.runs if f.stored is not None and not f.damaged]
    ledger, until = Closed(), _until(recorded)
    workspace = resumption.workspace
    return has_work(
        take_up(found.paths, experiment, runs, workspace, ledger, until=until, retry=retry)
    )
