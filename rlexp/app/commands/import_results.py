"""`rlexp import`: results of other tools become records, whole or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rlexp.app.imported import found_before
from rlexp.app.imported_place import add_to_experiment, new_experiment, remove_leftovers
from rlexp.app.imported_told import show_import
from rlexp.app.workspace import Workspace
from rlexp.config.foreign_yaml import read_foreign_yaml
from rlexp.config.references import known_reference
from rlexp.console import Console
from rlexp.errors import ConfigError
from rlexp.exchange.importers.budgets import SCORES, Asked
from rlexp.exchange.importers.given import files_of
from rlexp.exchange.importers.kinds import AUTO, KINDS, SERVER, kind_of
from rlexp.exchange.importers.settled import settle
from rlexp.exchange.importers.study import ImportedStudy, Returns, Unit, Wanted
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import check_name
from rlexp.store.secrets import mask_all

UNITS = ("environment", "frames", "updates")
OPTIONS: Mapping[str, Sequence[str]] = {
    "metric": ("tensorboard", "mlflow", "marl-eval"),
    "returns": ("tensorboard", "mlflow", "marl-eval", "csv"),
    "mlflow_experiment": ("mlflow",),
}
"""Which kinds an option is for, where it is not for all."""
SERVERS = ("http://", "https://")
"""How the address of an MLflow server begins."""
RETURNS = {"evaluations": Returns.EVALUATIONS, "training": Returns.TRAINING}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What the user asks for, as it was typed."""

    kind: str
    paths: tuple[str, ...]
    experiment: str
    label: str | None = None
    task: str | None = None
    seed: int | None = None
    steps: int | None = None
    steps_unit: str | None = None
    frame_skip: int | None = None
    steps_per_update: int | None = None
    score: str | None = None
    metric: str | None = None
    returns: str | None = None
    mlflow_experiment: str | None = None
    dry_run: bool = False

    def command(self) -> list[str]:
        """The command that asks for it."""
        told = {
            "experiment": self.experiment,
            "label": self.label,
            "task": self.task,
            "seed": self.seed,
            "steps": self.steps,
            "steps-unit": self.steps_unit,
            "frame-skip": self.frame_skip,
            "steps-per-update": self.steps_per_update,
            "score": self.score,
            "metric": self.metric,
            "returns": self.returns,
            "mlflow-experiment": self.mlflow_experiment,
        }
        options = [[f"--{key}", str(value)] for key, value in told.items() if value is not None]
        return ["rlexp", "import", self.kind, *self.paths, *(w for own in options for w in own)]


def import_records(request: ImportRequest, workspace: Workspace, console: Console) -> int:
    """Import results and say what they are; returns the exit code.

    Raises:
        RlexpError: Something that was given cannot be read, or does not fit; nothing was imported.
    """
    wanted, asked = _wanted(request), _asked(request)
    paths = workspace.layout.experiment(asked.name)
    if not request.dry_run:
        probe_writable(workspace.layout.root)
    there = found_before(paths)
    read = _safe(_read(request, wanted, workspace))
    settled = settle(read, asked, there, lambda task: known_reference(task, workspace.folder))
    command = request.command()
    if not request.dry_run:
        remove_leftovers(workspace.layout.root)
    if there is None:
        written = new_experiment(workspace.layout, settled, command, wanted, dry=request.dry_run)
    else:
        written = add_to_experiment(there, paths, settled, command, wanted, dry=request.dry_run)
    show_import(read, settled, written, request.dry_run, paths, console)
    return 0


def _read(request: ImportRequest, wanted: Wanted, workspace: Workspace) -> ImportedStudy:
    addresses = [path for path in request.paths if SERVER in path]
    if addresses:
        return _read_address(request, wanted, workspace)
    paths = [workspace.folder / path for path in request.paths]
    with TemporaryDirectory(prefix="rlexp-import-") as temporary:
        files = files_of(paths, read_file, Path(temporary))
        kind = kind_of(request.kind, files, read_foreign_yaml)
        _check_options(request, kind.name)
        return kind.read(files, wanted)


def _read_address(request: ImportRequest, wanted: Wanted, workspace: Workspace) -> ImportedStudy:
    if len(request.paths) != 1 or request.kind not in {"mlflow", AUTO}:
        raise ConfigError("an address is that of one MLflow server: rlexp import mlflow ADDRESS")
    address = request.paths[0]
    own = address.removeprefix("sqlite:///")
    if own != address:
        return _read(replace(request, kind="mlflow", paths=(own,)), wanted, workspace)
    # What else MLflow opens, it may write to: a database without its tables gets them.
    if not address.lower().startswith(SERVERS):
        raise ConfigError(
            f"{address} is no address of an MLflow server, which begins with "
            f"{' or '.join(SERVERS)}; give the SQLite file of a store by its path"
        )
    from rlexp.exchange.importers.mlflow_server import read_mlflow_server

    return read_mlflow_server(address, wanted)


def _safe(read: ImportedStudy) -> ImportedStudy:
    """The same without the secrets that settings and parameters may hold."""
    runs = [
        replace(run, settings=mask_all(run.settings), details=mask_all(run.details))
        for run in read.runs
    ]
    return replace(read, runs=tuple(runs))


def _asked(request: ImportRequest) -> Asked:
    _check_word("score", request.score, SCORES)
    return Asked(
        name=check_name(request.experiment),
        steps=request.steps,
        score=request.score,
        seed=request.seed,
    )


def _wanted(request: ImportRequest) -> Wanted:
    _check_word("kind", request.kind, (*KINDS, AUTO))
    _check_word("steps-unit", request.steps_unit, UNITS)
    _check_word("returns", request.returns, tuple(RETURNS))
    for option, word in (("label", request.label), ("task", request.task)):
        if word is not None and (not word.strip() or not word.isprintable() or len(word) > 120):
            raise ConfigError(f"--{option} {word!r} is no name of 1 to 120 letters")
    return Wanted(
        label=request.label and request.label.strip(),
        task=request.task and request.task.strip(),
        seed=request.seed,
        unit=_unit(request),
        metric=request.metric,
        returns=RETURNS.get(request.returns or ""),
        collection=request.mlflow_experiment,
    )


def _check_options(request: ImportRequest, kind: str) -> None:
    """Refuse what this kind would not obey."""
    for option, kinds in OPTIONS.items():
        if getattr(request, option) is not None and kind not in kinds:
            word = option.replace("_", "-")
            raise ConfigError(f"--{word} is for {', '.join(kinds)}, and this is {kind}")


def _check_word(option: str, word: str | None, known: Sequence[str]) -> None:
    if word is not None and word not in known:
        raise ConfigError.unknown(
            f"--{option} {word!r} is unknown", word, known, key=f"--{option}"
        )


def _unit(request: ImportRequest) -> Unit | None:
    """What a step is; options that belong to another unit are refused."""
    needed = {"frames": ("frame-skip", request.frame_skip)}
    needed["updates"] = ("steps-per-update", request.steps_per_update)
    for unit, (option, value) in needed.items():
        if value is not None and request.steps_unit != unit:
            raise ConfigError(f"--{option} goes with --steps-unit {unit}")
        if value is None and request.steps_unit == unit:
            raise ConfigError(f"--steps-unit {unit} needs --{option} N")
    match request.steps_unit:
        case None:
            return None
        case "frames":
            return Unit(name="frames", per=request.frame_skip or 1)
        case "updates":
            return Unit(name="updates", steps=request.steps_per_update or 1)
        case _:
            return Unit(name="environment")
