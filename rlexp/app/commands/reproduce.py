"""`rlexp reproduce`: rebuilds the code of completed runs, runs them again, and compares."""

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import rlexp
from rlexp.app.imported import refuse_imported_run
from rlexp.app.older_schema import refuse_older_run
from rlexp.app.permission import check_imports, foreign_modules
from rlexp.app.reproduction.again import define, run_again
from rlexp.app.reproduction.answer import Answer, answer, summary
from rlexp.app.reproduction.checkout import Checkout, checked_out, repository
from rlexp.app.reproduction.original import Original, RecordedCode, find_originals
from rlexp.app.reproduction.surroundings import Surroundings, compare
from rlexp.app.signals import CODES
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.runs import read_run


class SurroundingsDiffer(RlexpError):  # noqa: N818
    """Something that decides numbers is not as it was, and `--strict` asks that it is."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to reproduce of a target, and how strictly."""

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


@dataclass(slots=True)
class _Told:
    """What is gathered for the end."""

    answers: list[Answer] = field(default_factory=list)
    surroundings: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    signal: int | None = None


def reproduce(target: str, wanted: Wanted, workspace: Workspace, console: Console) -> int:
    """Run again what was completed, and say how alike it is; returns the exit code.

    That is 0 where every score is equal, 1 where one is not, or the code of a signal.

    Raises:
        RlexpError: There is nothing to reproduce, its code cannot be rebuilt or would import what
            is not allowed, or `--strict` refuses.
    """
    output = _output(wanted, workspace)
    originals = find_originals(target, wanted.phase, wanted.runs, workspace)
    for original in originals:
        refuse_imported_run(original.record.spec)
        refuse_older_run(original.record.spec)
    command = wanted.command(target, workspace.allowed)
    check_imports([original.record.spec for original in originals], workspace.allowed, command)
    for original in originals:
        _check_patch(original.code, workspace, command)
    told = _Told()
    with _ended_by_signals(), TemporaryDirectory(prefix="rlexp-reproduce-") as temporary:
        place = Path(temporary)
        runs = Layout(output or place / "runs")
        paths = runs.experiment(originals[0].paths.folder.parent.name)
        groups = _by_code(originals)
        for number, group in enumerate(groups):
            code = group[0].code
            with checked_out(code, workspace.folder, place / f"code-{number}") as checkout:
                if number == 0:
                    define(originals, paths)
                _one_code(group, checkout, paths, wanted, workspace, command, console, told)
            if told.signal is not None:
                break
    return _show(told, len(originals), output, console)


def _one_code(
    group: Sequence[Original],
    checkout: Checkout,
    paths: ExperimentPaths,
    wanted: Wanted,
    workspace: Workspace,
    command: Sequence[str],
    console: Console,
    told: _Told,
) -> None:
    """Run again, and compare, what ran the same code."""
    specs = [original.record.spec for original in group]
    around = compare(group[0].provenance, specs, checkout.folder)
    warnings = _warnings(group, around)
    told.warnings += warnings
    told.surroundings.append({"code": str(group[0].code), **around.plain()})
    if not console.as_json:
        for line in warnings:
            console.line(line)
    if wanted.strict and (around.decisive or around.machine):
        how = f"; {around.install} brings the packages back" if around.install else ""
        raise SurroundingsDiffer(f"--strict: {'; '.join(map(str, _deciding(around)))}{how}")
    executed = _executing(checkout, specs, workspace.folder)
    told.signal = run_again(group, paths, executed, workspace, tuple(command), console)
    for original in group:
        spec = original.record.spec
        again = read_run(paths.run(spec.name), spec, measurements=True).record
        if again.state in {State.COMPLETED, State.FAILED}:
            told.answers.append(answer(original, again, around, workspace))


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


def _output(wanted: Wanted, workspace: Workspace) -> Path | None:
    if wanted.output is None:
        return None
    folder = (workspace.folder / wanted.output).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"--output {wanted.output} is there and not empty: what runs again needs a folder of "
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
def _ended_by_signals() -> Iterator[None]:
    """Let signals that end a process end it in order, so that what was made for it is removed."""
    heard = [n for n in CODES if n is not signal.SIGINT]
    heard = [n for n in heard if signal.getsignal(n) is signal.SIG_DFL]

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(CODES[signal.Signals(number)])

    before = {number: signal.signal(number, leave) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(told: _Told, asked: int, output: Path | None, console: Console) -> int:
    value = {
        "runs": [a.plain() for a in told.answers],
        "asked": asked,
        "surroundings": told.surroundings,
        "warnings": told.warnings,
        "output": None if output is None else str(output),
    }
    lines = [line for a in told.answers for line in a.lines()]
    lines += [summary(told.answers)] if told.answers else []
    lines += [f"Records: {output}"] if output is not None else []
    missing = asked - len(told.answers)
    if missing:
        lines.append(f"{missing} of {asked} were not run again to their end")
    console.show(value, lines)
    if told.signal is not None:
        return told.signal
    return int(missing > 0 or not all(a.reproduced for a in told.answers))
