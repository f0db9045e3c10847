"""Importer of Stable-Baselines3's `evaluations.npz`: returns of all evaluations of a training."""

import math
import zlib
from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    EvaluationPoint,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    ReturnKind,
    StepUnit,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.naming import RunFacts, RunNaming
from rlexp.exchange.importers.parse_values import seed_from_name
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files

NAME = "evaluations.npz"
ARRAYS = ("timesteps", "results", "ep_lengths")
"""Arrays that are read; `successes`, if present, is ignored."""
BROKEN = (BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)
"""Errors that reading a damaged archive raises."""
LARGEST_ARRAY = 1 << 28
"""Bytes of the largest array that is read."""


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is such a file."""
    return any(_is_evaluations(file) for file in files)


def read_evaluations(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read runs, one from each file.

    Raises:
        MalformedError: A file has another form, or neither it nor the user names the task.
    """
    used = [file for file in files if _is_evaluations(file)]
    naming = RunNaming(options)
    runs = tuple(run for file in used if (run := _run(file, options, naming)) is not None)
    naming.check()
    left_out = (*naming.left_out(), *unused_files(files, used))
    return ImportedStudy(kind="sb3-evaluations", runs=runs, left_out=left_out)


def _is_evaluations(file: SourceFile) -> bool:
    return file.last.endswith(NAME)


def _run(file: SourceFile, options: ImportOptions, naming: RunNaming) -> ImportedRun | None:
    """The run of a file; None if the conditions leave it out."""
    facts = RunFacts(
        name=file.name,
        source=file.name,
        paths=tuple(filter(None, (file.folder, file.name))),
        seed=seed_from_name(file.name),
    )
    identity = naming.identify(facts)
    if identity is None:
        return None
    loaded = file.load()
    points, trouble = until_not_finite(read_points(loaded, options.unit or ENVIRONMENT))
    return ImportedRun(
        name=file.folder or file.name,
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=points,
        returns=ReturnKind.EVALUATIONS,
        files=(loaded.sum,),
        settings=identity.settings,
        trouble=trouble,
    )


def read_points(loaded: LoadedFile, unit: StepUnit) -> tuple[EvaluationPoint, ...]:
    """Every evaluation in a file.

    Raises:
        MalformedError: The file has another form; the message names the array.
    """
    try:
        with ZipFile(BytesIO(loaded.content)) as archive:
            steps, returns, lengths = (_array(archive, key, loaded.name) for key in ARRAYS)
    except BROKEN as error:
        raise malformed_error(loaded.name, "", f"it is not an npz archive: {error}") from error
    _check_shapes(steps, returns, lengths, loaded.name)
    counts = [int(step) for step in steps]
    for before, step in pairwise(counts):
        if step <= before:
            what = f"step {step:,} follows {before:,}: two runs wrote the file one after the other"
            raise malformed_error(loaded.name, "timesteps", what)
    return tuple(
        EvaluationPoint(
            step=unit.convert(step),
            returns=tuple(float(r) for r in episode_returns),
            lengths=tuple(unit.convert(int(n)) for n in episode_lengths),
        )
        for step, episode_returns, episode_lengths in zip(counts, returns, lengths, strict=True)
    )


def _check_shapes(
    steps: NDArray[Any], returns: NDArray[Any], lengths: NDArray[Any], name: str
) -> None:
    if steps.ndim != 1 or returns.ndim != 2 or lengths.shape != returns.shape:
        shapes = f"shapes {steps.shape}, {returns.shape} and {lengths.shape}"
        raise malformed_error(
            name, ", ".join(ARRAYS), f"{shapes}, and not (T,), (T, n) and (T, n)"
        )
    if not len(steps) or not returns.size or len(steps) != len(returns):
        what = f"{len(steps)} steps and {len(returns)} evaluations"
        raise malformed_error(name, "timesteps, results", what)
    for key, array in (("timesteps", steps), ("ep_lengths", lengths)):
        if array.dtype.kind not in "iu" or (array < 0).any() or (array > 1 << 53).any():
            raise malformed_error(
                name, key, "it holds values that are not whole numbers from 0 on"
            )


def _array(archive: ZipFile, key: str, name: str) -> NDArray[Any]:
    """An array; its header is compared with its size before memory is allocated."""
    try:
        entry = archive.getinfo(f"{key}.npy")
    except KeyError as error:
        raise malformed_error(name, key, "the array is missing") from error
    content = _content(archive, entry, key, name)
    file = BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, by_column, dtype = read(file)
    except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise malformed_error(name, key, f"it is not an array: {error}"[:200]) from error
    # Only numbers: an array of objects would have to be unpickled, which executes code.
    if dtype.kind not in "iuf":
        raise malformed_error(
            name, key, f"it holds {dtype}, and not numbers: Python objects are never loaded"
        )
    data = content[file.tell() :]
    # Python's integers cannot overflow, as NumPy's would for a forged shape.
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
        raise malformed_error(
            name, key, f"{len(data):,} bytes do not fill an array of shape {shape}"
        )
    flat: NDArray[Any] = np.frombuffer(data, dtype=dtype)
    return flat.reshape(shape, order="F" if by_column else "C")


def _content(archive: ZipFile, entry: ZipInfo, key: str, name: str) -> bytes:
    if entry.file_size > LARGEST_ARRAY:
        raise malformed_error(name, key, f"it unpacks to more than {LARGEST_ARRAY:,} bytes")
    with archive.open(entry) as file:
        # The size in the archive's directory may be wrong, on purpose or by damage.
        content = file.read(LARGEST_ARRAY + 1)
    if len(content) > LARGEST_ARRAY:
        raise malformed_error(name, key, f"it unpacks to more than {LARGEST_ARRAY:,} bytes")
    return content
