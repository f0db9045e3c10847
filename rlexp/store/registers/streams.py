"""The register of a stream on disk: a hash chain of lines in `candidates.jsonl`.

Only the command that holds the lock of the experiment appends to it. No line is ever changed or removed.
"""

import shlex

from rlexp.errors import RecordError
from rlexp.records.stream import StreamLine, StreamRegister, line_from_plain, plain_line
from rlexp.store.files import append_line_with, parse_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.hash_chain import chained, read_chain, read_entries
from rlexp.store.schemas import CANDIDATES


def is_stream(paths: ExperimentPaths) -> bool:
    """Whether the experiment is a stream of candidates."""
    return paths.candidates.exists()


def read_stream(paths: ExperimentPaths) -> StreamRegister:
    """Read the register and check every line and the chain; empty where there is none.

    Raises:
        RecordError: The file cannot be read.
    """
    chain = read_chain(paths.candidates, CANDIDATES)
    lines: tuple[StreamLine, ...]
    lines, breaks = read_entries(chain, _read)
    return StreamRegister.of(lines, sums=chain.sums, breaks=breaks, torn=chain.torn)


def _read(line: bytes) -> StreamLine:
    try:
        document = parse_json(line)
        CANDIDATES.check(document, "it")
        return line_from_plain(document)
    except (ValueError, RecursionError) as error:
        raise RecordError(str(error)) from error


def append_to_stream(paths: ExperimentPaths, *lines: StreamLine) -> None:
    """Append lines durably and by one write; the caller holds the lock of the experiment.

    Raises:
        OSError: The disk is full or gone.
    """
    documents = [plain_line(line) for line in lines]
    append_line_with(paths.candidates, lambda last: chained(last, documents, CANDIDATES))


def intact_stream(paths: ExperimentPaths) -> StreamRegister:
    """Read the register, and refuse one that was changed.

    Raises:
        RecordError: A line was edited, moved or taken out, or the file cannot be read.
    """
    register = read_stream(paths)
    if register.breaks:
        command = f"rlexp verify {shlex.quote(paths.name)}"
        raise RecordError(
            f"the register {paths.candidates} was changed ({register.breaks[0]}), so that no further "
            f"decision can rest on it: restore it; for all findings: {command}",
            code="changed_register",
            command=command,
        )
    return register


def stream_command(paths: ExperimentPaths) -> tuple[str, ...] | None:
    """The command that shows a stream and how it goes on; None for any other experiment."""
    return ("rlexp", "propose", paths.name) if is_stream(paths) else None


def refuse_stream(paths: ExperimentPaths) -> None:
    """Refuse to continue a stream by another command than `rlexp propose`.

    Raises:
        RecordError: It is one; the message has the command.
    """
    if command := stream_command(paths):
        raise RecordError(
            f"{paths.name} is a stream of candidates, which only its own command continues: "
            f"{shlex.join(command)}",
            command=shlex.join(command),
            key=paths.name,
        )
