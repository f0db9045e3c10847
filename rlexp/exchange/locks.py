"""Locks between processes that share a study: only one at a time opens, creates or changes it."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

KEY = 0x726C657870
"""Number of the advisory lock in a PostgreSQL database, used by every sweep mirrored to it."""
NAME = "rlexp mirror"
"""Name of the lock on a MySQL server."""
WAIT = 3600
"""Seconds that a process waits for the lock of a MySQL server."""

Lock = Callable[[], AbstractContextManager[None]]


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel releases it when the process dies.

    On a file system without locks (some NFS servers) every process gets the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Opening a symbolic link would create a file wherever it leads.
    if path.is_symlink():
        path.unlink()
    # The file is never deleted: a process that waits for the deleted file and one that creates it
    # anew would both hold a lock.
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield
            return
        yield


def database_lock(engine: Any) -> Lock:
    """The lock of a PostgreSQL or MySQL server; the server releases it when the connection ends.

    Args:
        engine: SQLAlchemy's engine of the database; its connections should not be pooled.
    """
    take, end = {
        # Held by the transaction and not by the session, because connection poolers may move a
        # session to another connection.
        "postgresql": (f"SELECT pg_advisory_xact_lock({KEY})", "SELECT 1"),
        "mysql": (f"SELECT GET_LOCK('{NAME}', {WAIT})", f"SELECT RELEASE_LOCK('{NAME}')"),
    }[engine.dialect.name]

    @contextmanager
    def locked() -> Iterator[None]:
        from sqlalchemy import text

        with engine.begin() as connection:
            connection.execute(text(take))
            yield
            # Raises if the connection was lost: then the lock was not held until the end.
            connection.execute(text(end))

    return locked
