"""Turns between processes: only one at a time opens, creates or changes what they share."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

KEY = 0x726C657870
"""Number of the lock in a PostgreSQL database: every sweep that is mirrored to it takes it."""
NAME = "rlexp mirror"
"""Name of the lock on a MySQL server."""
WAIT = 3600
"""Seconds that a MySQL server lets a process wait for its turn."""

Lock = Callable[[], AbstractContextManager[None]]


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, which the system gives back when the process dies.

    A file system without locks (some NFS) gives the turn to everyone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield
            return
        yield


def database_lock(engine: Any) -> Lock:
    """The turns of a PostgreSQL or MySQL server, which ends one when its connection ends.

    Args:
        engine: SQLAlchemy's, of the database; its connections should not be pooled.
    """
    take, end = {
        # Held by the transaction, not the session: poolers between us and the server keep it.
        "postgresql": (f"SELECT pg_advisory_xact_lock({KEY})", "SELECT 1"),
        "mysql": (f"SELECT GET_LOCK('{NAME}', {WAIT})", f"SELECT RELEASE_LOCK('{NAME}')"),
    }[engine.dialect.name]

    @contextmanager
    def turn() -> Iterator[None]:
        from sqlalchemy import text

        with engine.begin() as connection:
            connection.execute(text(take))
            yield
            # Fails where the server went away meanwhile: then the turn was not ours to the end.
            connection.execute(text(end))

    return turn
