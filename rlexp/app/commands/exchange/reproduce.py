"""`rlexp reproduce`: rebuilds the code of completed runs, runs them again, and compares."""

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, ClassVar

import rlexp
from rlexp.app.execution.checks.import_permission import check_imports, foreign_modules
from rlexp.app.execution.signals import STOP_SIGNALS, Signals
from rlexp.app.observer import Observer
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.reading.older_schema import refuse_older_run
from rlexp.app.reproduction.ancestors import Generation, generations, hand_over
from rlexp.app.reproduction.checkout import Checkout, check_out_code, repository
from rlexp.app.reproduction.comparison import (
    EnvironmentChange,
    EnvironmentDifference,
    ReproducedRun,
    ReproductionVerdict,
    compare_environments,
    judge_reproduction,
    judge_run_without_parent,
)
from rlexp.app.reproduction.original import Original, RecordedCode, find_originals
from rlexp.app.reproduction.rerun import define_experiment, run_again
from rlexp.app.results import Schema
from rlexp.app.streams.rescoring import score_repetitions
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.errors import Code, ConfigError, RecordError, RlexpError
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.runs import read_run


class SurroundingsDiffer(RlexpError):  # noqa: N818
    """With `--strict`: packages, the processor or variables that decide numbers have changed."""

    exit_code = 3
    code: Code = "surroundings_differ"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionRequest:
    """The runs to reproduce.

    Attributes:
        runs: Number of runs of an experiment, from the first; None takes all.
        phase: The phase of an experiment; None is test, or else the first phase with completed
            runs.
        strict: Whether to refuse if packages or the processor differ.
        output: The new folder for the records; None discards them.
    """

    runs: int | None = None
    phase: str | None = None
    strict: bool = False
    output: str | None = None

    def command(self, target: str, allowed: Sequence[str]) -> list[str]:
        """The command that makes this request."""
        command = ["rlexp", "reproduce", target]
        command += ["--runs", str(self.runs)] if self.runs is not None else []
        command += ["--phase", self.phase] if self.phase is not None else []
        command += ["--strict"] if self.strict else []
        command += ["--output", self.output] if self.output is not None else []
        return command + [word for package in allowed for word in ("--allow-import", package)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSurroundings:
    """Changed packages and hardware since the original runs of one version of the code.

    Attributes:
        code: The code of the runs (`commit 1a2b3c4 with 2 uncommitted changes`).
        decisive: Changed packages, and Python, that can change the numbers of the runs.
        machine: The processor and environment variables, if they changed.
        others: Changed packages that these runs do not use.
        install: The command that installs the original versions of the decisive packages; null if
            no command can.
        rlexp_editable: The folder of rlexp, if it is an editable installation.
    """

    code: str
    decisive: tuple[EnvironmentChange, ...]
    machine: tuple[EnvironmentChange, ...]
    others: tuple[EnvironmentChange, ...]
    install: str | None
    rlexp_editable: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A comparison of runs with their repetitions.

    Attributes:
        runs: The runs whose repetition has ended. Parents whose states were gone come before the
            runs that continue them.
        requested: Number of runs to repeat, with these parents.
        surroundings: Changed packages and hardware, for each version of the code.
        warnings: The changes as sentences.
        output: The folder with the records of the repetitions; null if they are not kept.
        reproduced: Whether every requested run reached the same score again.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
    """

    schema: ClassVar[Schema] = Schema("reproduction")

    runs: tuple[ReproducedRun, ...]
    requested: int
    surroundings: tuple[ChangedSurroundings, ...]
    warnings: tuple[str, ...]
    output: Path | None
    reproduced: bool
    interrupted: str | None


@dataclass(slots=True)
class _PartialResult:
    """The fields of `Reproduction`, filled while runs end."""

    runs: list[ReproducedRun] = field(default_factory=list)
    surroundings: list[ChangedSurroundings] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    interrupted: signal.Signals | None = None


def reproduce(
    target: str, request: ReproductionRequest, workspace: Workspace, observer: Observer
) -> Reproduction:
    """Run completed runs again, and compare every recorded number.

    Raises:
        RlexpError: There are no completed runs, their code cannot be rebuilt or needs an import
            that is not allowed, or `--strict` refuses.
    """
    output = _output(request, workspace)
    repeated = generations(find_originals(target, request.phase, request.runs, workspace))
    originals = [original for generation in repeated for original in generation.originals]
    for original in originals:
        refuse_imported_run(original.record.spec)
        refuse_older_run(original.record.spec)
    command = request.command(target, workspace.allowed)
    check_imports([original.record.spec for original in originals], workspace.allowed, command)
    _check_datasets(originals, workspace)
    for original in originals:
        _check_patch(original.code, workspace, command)
    partial = _PartialResult()
    with _ended_by_signals(handled=workspace.handles_signals) as signals:
        try:
            _run_all(repeated, output, request, workspace, command, observer, partial)
        except KeyboardInterrupt:
            partial.interrupted = signals.received or signal.SIGINT
    return _result(partial, len(originals), output)


def _check_datasets(originals: Sequence[Original], workspace: Workspace) -> None:
    """Refuse runs that start from a dataset which is missing or has changed.

    Raises:
        RlexpError: Names the dataset.
    """
    parts = [o.record.spec.dataset for o in originals if o.record.spec.dataset is not None]
    if parts:
        workspace.make_allowed_importable()
    for part in {canonical(part): part for part in parts}.values():
        build(part, "dataset", workspace.allowed).check_content()


def _run_all(
    repeated: Sequence[Generation],
    output: Path | None,
    request: ReproductionRequest,
    workspace: Workspace,
    command: Sequence[str],
    observer: Observer,
    partial: _PartialResult,
) -> None:
    """Run everything again, in a temporary folder that is always removed."""
    with TemporaryDirectory(prefix="rlexp-reproduce-") as temporary:
        runs = Layout(output or Path(temporary) / "runs")
        for number, generation in enumerate(repeated):
            folder = Path(temporary) / f"generation-{number}"
            _run_generation(
                generation, runs, folder, request, workspace, command, observer, partial
            )
            if partial.interrupted is not None:
                break


def _run_generation(
    generation: Generation,
    runs: Layout,
    folder: Path,
    request: ReproductionRequest,
    workspace: Workspace,
    command: Sequence[str],
    observer: Observer,
    partial: _PartialResult,
) -> None:
    """Run the runs of one experiment again, whose repeated parents have ended."""
    folder.mkdir()
    paths = runs.experiment(generation.name)
    if generation.handed_on:
        name = generation.originals[0].paths.folder.parent.name
        observer.note(
            f"the states that runs of {name} kept are gone: these runs are repeated first"
        )
    missing: dict[str, str] | None = None
    for number, group in enumerate(_by_code(generation.originals)):
        code = group[0].code
        with check_out_code(code, workspace.folder, folder / f"code-{number}") as checkout:
            # The experiment is defined once, for the runs of all versions of the code.
            if missing is None:
                define_experiment(generation.originals, paths)
                missing = _begin(generation, paths, partial)
            begun = [original for original in group if original.name not in missing]
            if begun:
                _one_code(
                    begun,
                    checkout,
                    paths,
                    request,
                    workspace,
                    command,
                    observer,
                    partial,
                    keep_states=generation.handed_on,
                )
        if partial.interrupted is not None:
            break


def _begin(
    generation: Generation, paths: ExperimentPaths, partial: _PartialResult
) -> dict[str, str]:
    """Hand over the states of parents; returns the runs that lack theirs, with the reasons."""
    missing = hand_over(generation, paths)
    partial.runs += [
        judge_run_without_parent(original, missing[original.name])
        for original in generation.originals
        if original.name in missing
    ]
    return missing


def _result(partial: _PartialResult, requested: int, output: Path | None) -> Reproduction:
    alike = [
        r.verdict in {ReproductionVerdict.IDENTICAL, ReproductionVerdict.EQUAL_SCORES}
        for r in partial.runs
    ]
    return Reproduction(
        runs=tuple(partial.runs),
        requested=requested,
        surroundings=tuple(partial.surroundings),
        warnings=tuple(partial.warnings),
        output=output,
        reproduced=len(alike) == requested and all(alike),
        interrupted=partial.interrupted.name if partial.interrupted else None,
    )


def _one_code(
    group: Sequence[Original],
    checkout: Checkout,
    paths: ExperimentPaths,
    request: ReproductionRequest,
    workspace: Workspace,
    command: Sequence[str],
    observer: Observer,
    partial: _PartialResult,
    *,
    keep_states: bool,
) -> None:
    """Repeat the runs of one version of the code, and compare them.

    Raises:
        SurroundingsDiffer: With `strict`, packages or the machine have changed.
    """
    specs = [original.record.spec for original in group]
    around = compare_environments(group[0].provenance, specs, checkout.folder)
    warnings = _warnings(group, around)
    partial.warnings += warnings
    partial.surroundings.append(_changed(group[0].code, around))
    for warning in warnings:
        observer.note(warning)
    if request.strict and (around.decisive or around.machine):
        how = f"; to install the original packages: {around.install}" if around.install else ""
        raise SurroundingsDiffer(f"--strict: {'; '.join(map(str, _deciding(around)))}{how}")
    executed = _executing(checkout, specs, workspace.folder)
    partial.interrupted = run_again(
        group, paths, executed, workspace, tuple(command), observer, keep_states=keep_states
    )
    repetitions = [read_run(paths.run(spec.name), spec).record for spec in specs]
    ended = [record for record in repetitions if record.state is State.COMPLETED]
    score_repetitions(ExperimentPaths(group[0].paths.folder.parent), paths, ended, workspace)
    for original in group:
        spec = original.record.spec
        again = read_run(paths.run(spec.name), spec, measurements=True).record
        # A run that a signal interrupted has nothing to compare.
        if again.state in {State.COMPLETED, State.FAILED}:
            partial.runs.append(judge_reproduction(original, again, around, workspace).result())


def _changed(code: RecordedCode, around: EnvironmentDifference) -> ChangedSurroundings:
    return ChangedSurroundings(
        code=str(code),
        decisive=around.decisive,
        machine=around.machine,
        others=around.others,
        install=around.install,
        rlexp_editable=around.editable,
    )


def _deciding(around: EnvironmentDifference) -> list[Any]:
    return [*around.decisive, *around.machine]


def _warnings(group: Sequence[Original], around: EnvironmentDifference) -> list[str]:
    code = group[0].code
    lines = []
    if code.commit is None:
        lines.append("no commit was recorded: the repetition uses the present code of this folder")
    else:
        lines.append(f"code: {code}, in a separate git worktree")
    if not code.saved:
        lines.append("the original uncommitted changes were not saved in full")
    if not around.known:
        lines.append("no packages were recorded: versions of packages cannot be compared")
    lines += [f"differs: {change}" for change in _deciding(around)]
    if around.install:
        lines.append(f"to install the original packages: {around.install}")
    if around.others:
        lines.append(f"{len(around.others)} other packages differ, which the run does not import")
    return lines


def _by_code(originals: Sequence[Original]) -> list[list[Original]]:
    """The runs grouped by their code and by the recorded packages and hardware."""
    # The keys hold dictionaries, which cannot be keys of a dictionary.
    groups: list[tuple[Any, list[Original]]] = []
    for original in originals:
        provenance = original.provenance
        keys = ("packages", "python", "machine", "variables")
        key = (original.code, {k: provenance.get(k) for k in keys})
        for group_key, members in groups:
            if group_key == key:
                members.append(original)
                break
        else:
            groups.append((key, [original]))
    return [members for _, members in groups]


def _output(request: ReproductionRequest, workspace: Workspace) -> Path | None:
    if request.output is None:
        return None
    folder = (workspace.folder / request.output).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"--output {request.output} already exists and is not an empty folder: name a new "
            "folder"
        )
    return folder


def _check_patch(code: RecordedCode, workspace: Workspace, command: Sequence[str]) -> None:
    """Refuse a recorded patch that would change rlexp itself, unless the user allowed it.

    Raises:
        RecordError: The code is in the same repository as rlexp, and the patch is not allowed.
    """
    # The patch comes from a run folder, which may come from another person.
    if not code.patch or "rlexp" in workspace.allowed or not _holds_rlexp(workspace.folder):
        return
    again = shlex.join([*command, "--allow-import", "rlexp"])
    raise RecordError(
        f"the run's {code.source} would be executed, and may change rlexp itself: read it; if you "
        f"trust it, allow it: {again}"
    )


def _holds_rlexp(folder: Path) -> bool:
    """Whether rlexp itself is imported from the repository that a folder belongs to."""
    root = repository(folder)
    return root is not None and Path(rlexp.__file__).resolve().is_relative_to(root.resolve())


def _executing(checkout: Checkout, specs: Sequence[RunSpec], folder: Path) -> Checkout:
    """The checkout; without its import paths if the runs import only installed packages."""
    if any(map(foreign_modules, specs)) or _holds_rlexp(folder):
        return checkout
    return replace(checkout, imports=())


@contextmanager
def _ended_by_signals(*, handled: bool) -> Iterator[Signals]:
    """Turn terminating signals into KeyboardInterrupt, so that temporary files are removed."""
    signals = Signals()
    # Python itself turns SIGINT into KeyboardInterrupt.
    heard = [n for n in STOP_SIGNALS if handled and n is not signal.SIGINT]
    # A caller's handlers stay: `nohup`, for example, ignores SIGHUP.
    heard = [n for n in heard if signal.getsignal(n) is signal.SIG_DFL]

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        signals.received = signals.received or signal.Signals(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
