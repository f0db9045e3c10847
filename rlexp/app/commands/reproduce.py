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
from rlexp.app.execution.import_permission import check_imports, foreign_modules
from rlexp.app.execution.signals import STOP_SIGNALS, Signals
from rlexp.app.observer import Observer
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.reading.older_schema import refuse_older_run
from rlexp.app.reproduction.checkout import Checkout, checked_out, repository
from rlexp.app.reproduction.comparison import (
    Change,
    ReproducedRun,
    Surroundings,
    Verdict,
    answer,
    compare,
)
from rlexp.app.reproduction.original import Original, RecordedCode, find_originals
from rlexp.app.reproduction.rerun import define, run_again
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import Code, ConfigError, RecordError, RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.runs import read_run


class SurroundingsDiffer(RlexpError):  # noqa: N818
    """Something that decides numbers is not as it was, and `--strict` asks that it is."""

    exit_code = 3
    code: Code = "surroundings_differ"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionRequest:
    """What to reproduce of a target, and how strictly.

    Attributes:
        runs: Of an experiment, only the first so many.
        phase: Of an experiment; null is test, or else the first phase with completed runs.
        strict: Whether nothing runs where packages or the processor differ.
        output: The new folder in which the records are kept.
    """

    runs: int | None = None
    phase: str | None = None
    strict: bool = False
    output: str | None = None

    def command(self, target: str, allowed: Sequence[str]) -> list[str]:
        """The command that asks for it."""
        words = ["rlexp", "reproduce", target]
        words += ["--runs", str(self.runs)] if self.runs is not None else []
        words += ["--phase", self.phase] if self.phase is not None else []
        words += ["--strict"] if self.strict else []
        words += ["--output", self.output] if self.output is not None else []
        return words + [word for package in allowed for word in ("--allow-import", package)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSurroundings:
    """What differs around runs that ran the same code.

    Attributes:
        code: Their code (`commit 1a2b3c4 with 2 uncommitted changes`).
        decisive: Packages, and the Python, that decide the numbers of the runs.
        machine: Processor, and environment variables that can change numbers.
        others: Packages that decide no number of these runs, as far as can be seen.
        install: The command that installs the decisive packages as they were, if one can.
        rlexp_editable: Where rlexp is imported from, if it is installed for editing.
    """

    code: str
    decisive: tuple[Change, ...]
    machine: tuple[Change, ...]
    others: tuple[Change, ...]
    install: str | None
    rlexp_editable: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """How alike runs are to their second execution.

    Attributes:
        runs: The runs whose second execution has ended.
        requested: Number of runs that were to be run again.
        surroundings: What differs around them, for each code.
        warnings: What differs, in words.
        output: The folder with the records of the second executions, if they are kept.
        reproduced: Whether every requested run came to the same score.
        interrupted: The signal that ended it (`SIGINT`), if one did.
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
class _Gathered:
    """What is gathered for the result."""

    runs: list[ReproducedRun] = field(default_factory=list)
    surroundings: list[ChangedSurroundings] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    interrupted: signal.Signals | None = None


def reproduce(
    target: str, request: ReproductionRequest, workspace: Workspace, observer: Observer
) -> Reproduction:
    """Run again what was completed, and compare it number by number.

    Raises:
        RlexpError: There is nothing to reproduce, its code cannot be rebuilt or would import what
            is not allowed, or `--strict` refuses.
    """
    output = _output(request, workspace)
    originals = find_originals(target, request.phase, request.runs, workspace)
    for original in originals:
        refuse_imported_run(original.record.spec)
        refuse_older_run(original.record.spec)
    command = request.command(target, workspace.allowed)
    check_imports([original.record.spec for original in originals], workspace.allowed, command)
    for original in originals:
        _check_patch(original.code, workspace, command)
    gathered = _Gathered()
    with _ended_by_signals(handled=workspace.handles_signals) as signals:
        try:
            _run_all(originals, output, request, workspace, command, observer, gathered)
        except KeyboardInterrupt:
            gathered.interrupted = signals.received or signal.SIGINT
    return _result(gathered, len(originals), output)


def _run_all(
    originals: Sequence[Original],
    output: Path | None,
    request: ReproductionRequest,
    workspace: Workspace,
    command: Sequence[str],
    observer: Observer,
    gathered: _Gathered,
) -> None:
    """Run everything again, in a temporary folder that is removed however this ends."""
    with TemporaryDirectory(prefix="rlexp-reproduce-") as temporary:
        place = Path(temporary)
        runs = Layout(output or place / "runs")
        paths = runs.experiment(originals[0].paths.folder.parent.name)
        for number, group in enumerate(_by_code(originals)):
            code = group[0].code
            with checked_out(code, workspace.folder, place / f"code-{number}") as checkout:
                if number == 0:
                    define(originals, paths)
                _one_code(group, checkout, paths, request, workspace, command, observer, gathered)
            if gathered.interrupted is not None:
                break


def _result(gathered: _Gathered, requested: int, output: Path | None) -> Reproduction:
    alike = [r.verdict in {Verdict.IDENTICAL, Verdict.EQUAL_SCORES} for r in gathered.runs]
    return Reproduction(
        runs=tuple(gathered.runs),
        requested=requested,
        surroundings=tuple(gathered.surroundings),
        warnings=tuple(gathered.warnings),
        output=output,
        reproduced=len(alike) == requested and all(alike),
        interrupted=gathered.interrupted.name if gathered.interrupted else None,
    )


def _one_code(
    group: Sequence[Original],
    checkout: Checkout,
    paths: ExperimentPaths,
    request: ReproductionRequest,
    workspace: Workspace,
    command: Sequence[str],
    observer: Observer,
    gathered: _Gathered,
) -> None:
    """Run again, and compare, what ran the same code."""
    specs = [original.record.spec for original in group]
    around = compare(group[0].provenance, specs, checkout.folder)
    warnings = _warnings(group, around)
    gathered.warnings += warnings
    gathered.surroundings.append(_changed(group[0].code, around))
    for warning in warnings:
        observer.note(warning)
    if request.strict and (around.decisive or around.machine):
        how = f"; {around.install} brings the packages back" if around.install else ""
        raise SurroundingsDiffer(f"--strict: {'; '.join(map(str, _deciding(around)))}{how}")
    executed = _executing(checkout, specs, workspace.folder)
    gathered.interrupted = run_again(group, paths, executed, workspace, tuple(command), observer)
    for original in group:
        spec = original.record.spec
        again = read_run(paths.run(spec.name), spec, measurements=True).record
        if again.state in {State.COMPLETED, State.FAILED}:
            gathered.runs.append(answer(original, again, around, workspace).result())


def _changed(code: RecordedCode, around: Surroundings) -> ChangedSurroundings:
    return ChangedSurroundings(
        code=str(code),
        decisive=around.decisive,
        machine=around.machine,
        others=around.others,
        install=around.install,
        rlexp_editable=around.editable,
    )


def _deciding(around: Surroundings) -> list[Any]:
    return [*around.decisive, *around.machine]


def _warnings(group: Sequence[Original], around: Surroundings) -> list[str]:
    code = group[0].code
    lines = []
    if code.commit is None:
        lines.append("no commit was recorded: the present code of this folder runs")
    else:
        lines.append(f"code: {code}, in a worktree of its own")
    if not code.saved:
        lines.append("its uncommitted changes were not saved in full")
    if not around.known:
        lines.append("no packages were recorded: nothing to compare the installed ones with")
    lines += [f"differs: {change}" for change in _deciding(around)]
    if around.install:
        lines.append(f"to install what there was: {around.install}")
    if around.others:
        lines.append(f"{len(around.others)} other packages differ, which it does not import")
    return lines


def _by_code(originals: Sequence[Original]) -> list[list[Original]]:
    """The runs by the code that they ran, and by what was recorded around it."""
    groups: list[tuple[Any, list[Original]]] = []
    for original in originals:
        provenance = original.provenance
        keys = ("packages", "python", "machine", "variables")
        key = (original.code, {k: provenance.get(k) for k in keys})
        for known, members in groups:
            if known == key:
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
            f"--output {request.output} is there and not empty: what runs again needs a folder of "
            "its own"
        )
    return folder


def _check_patch(code: RecordedCode, workspace: Workspace, command: Sequence[str]) -> None:
    """Refuse to execute changes to rlexp itself that only the files of a run hold."""
    if not code.patch or "rlexp" in workspace.allowed or not _holds_rlexp(workspace.folder):
        return
    again = shlex.join([*command, "--allow-import", "rlexp"])
    raise RecordError(
        f"the run's {code.source} may change rlexp itself, and would be executed: read it; if you "
        f"trust it: {again}"
    )


def _holds_rlexp(folder: Path) -> bool:
    """Whether rlexp itself is imported from the repository that a folder belongs to."""
    root = repository(folder)
    return root is not None and Path(rlexp.__file__).resolve().is_relative_to(root.resolve())


def _executing(checkout: Checkout, specs: Sequence[RunSpec], folder: Path) -> Checkout:
    """The checkout, as far as anything of it is imported: what nobody allowed never is."""
    if any(map(foreign_modules, specs)) or _holds_rlexp(folder):
        return checkout
    return replace(checkout, imports=())


@contextmanager
def _ended_by_signals(*, handled: bool) -> Iterator[Signals]:
    """Let signals that end a process interrupt it, so that what was made for it is removed."""
    signals = Signals()
    heard = [n for n in STOP_SIGNALS if handled and n is not signal.SIGINT]
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
