"""The errors that rlexp shows to its users: one line each, with what to do next."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk and of a spent quota."""
DISK_ERRORS = NO_SPACE | {errno.EIO, errno.EROFS, errno.ESTALE}
"""Error numbers of a disk that cannot be written, whatever the reason."""


class RlexpError(Exception):
    """A mistake or a fault that the user can act on; printed without a traceback."""

    exit_code = 2


class ConfigError(RlexpError, ValueError):
    """The configuration names something unknown, mistyped, out of range or unfit.

    A ValueError too, so that validation collects it with the other mistakes.
    """


class ProtocolError(RlexpError, ValueError):
    """The experiment as asked for would break its own protocol."""


class RecordError(RlexpError):
    """Something under `runs/` is missing, damaged, locked or of another version."""


class HeldError(RecordError):
    """Another process holds what only one may: it may let go."""


class ExecutorError(RlexpError):
    """The processes that execute runs cannot be started or reached."""

    exit_code = 70


class TrackerUnreachable(RlexpError):  # noqa: N818
    """A tracker's service does not answer, or not sensibly; it may later."""

    exit_code = 69


class TrackerRefused(RlexpError):  # noqa: N818
    """A tracker's service takes nothing as it is asked: trying again changes nothing."""

    exit_code = 69


class EnvironmentFault(RlexpError):  # noqa: N818
    """An environment broke its own declaration: a bad observation or reward, at a known step."""

    exit_code = 1


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the allowed word nearest to `word`, or nothing."""
    close = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
