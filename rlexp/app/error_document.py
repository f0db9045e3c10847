"""The document of an error, with which every interface says why there is no result."""

import errno
import os
from pathlib import Path

from rlexp.app.results import ErrorDocument
from rlexp.errors import RlexpError
from rlexp.store.secrets import mask_known, secret_values

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
"""Error numbers of a disk or folder that cannot be written; the user can fix these."""


def error_document(error: RlexpError) -> ErrorDocument:
    """The document of an error, with its secrets masked."""
    return ErrorDocument(
        code=error.code,
        # A message may quote an override, and with it a secret that the user typed.
        message=mask_known(str(error), secret_values(os.environ)),
        key=error.key,
        allowed=error.allowed,
        command=error.command,
    )


def deleted_folder(error: BaseException) -> RlexpError | None:
    """The error that the folder of the command was deleted; None for any other exception."""
    if not isinstance(error, FileNotFoundError):
        return None
    try:
        Path.cwd()
    except FileNotFoundError:
        text = "the folder in which the command was typed was deleted: change to another one, cd ~"
        return RlexpError(text, code="unwritable", command="cd ~")
    return None


def unwritable_folder(error: BaseException) -> RlexpError | None:
    """The error about a disk or folder that cannot be written; None for any other exception."""
    if not isinstance(error, OSError) or error.errno not in UNWRITABLE:
        return None
    text = f"{error}; free space or choose another folder with RLEXP_RUNS"
    return RlexpError(text, code="unwritable", key="RLEXP_RUNS")
