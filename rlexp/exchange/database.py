"""The database of an Optuna study: PostgreSQL, MySQL or SQLite, named by its URL."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.locks import Lock, database_lock, file_lock

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, RDBStorage
    from sqlalchemy import URL

TIMEOUT = 3
"""Seconds in which a database must accept a connection, or release one of its locks."""
FORMS = "postgresql://USER:PASSWORD@HOST/DATABASE, mysql://… or sqlite:///FILE"
PACKAGES = {
    "postgresql": "rlexp[postgresql]",
    "psycopg2": "psycopg2-binary",
    "mysqldb": "mysqlclient",
    "pymysql": "pymysql",
}
"""Packages to install, by driver or database."""


class Database:
    """The database of a study. Not thread-safe."""

    def __init__(self, url: str) -> None:
        """Parse the URL; no connection is opened yet.

        Raises:
            ConfigError: The URL is invalid or of an unknown kind, or its driver is not installed.
        """
        self.url = _parse(url)
        self._storage: RDBStorage | None = None
        self._lock: Lock | None = None

    @property
    def shown(self) -> str:
        """The URL for messages: without the password and the options, which may contain one."""
        return self.url.set(query={}).render_as_string(hide_password=True)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts of the URI that no message may contain."""
        hidden = ("pass", "secret", "token", "key")
        options = [
            v for k, v in self.url.query.items() if any(word in k.lower() for word in hidden)
        ]
        texts = [text for v in options for text in ((v,) if isinstance(v, str) else v)]
        return tuple(s for s in (self.url.password, *texts) if s)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database; None for a server."""
        name = self.url.database
        return Path(name).absolute() if name and self.url.get_backend_name() == "sqlite" else None

    def lock(self) -> AbstractContextManager[None]:
        """Lock out other rlexp processes, also from a database that has no tables yet.

        Two processes that create Optuna's tables at the same time would break each other.
        """
        if self._lock is None:
            self._lock = self._make_lock()
        return self._lock()

    def open(self) -> "BaseStorage":
        """Open the storage; missing tables are created."""
        from optuna.storages import RDBStorage

        self.close()
        url = self.url.render_as_string(hide_password=False)
        self._storage = RDBStorage(
            url.replace("{", "{{").replace("}", "}}"),  # Optuna formats the text
            # A server may close an idle connection: the ping replaces it before it is used.
            engine_kwargs={"pool_pre_ping": True, "connect_args": _connect_args(self.url)},
        )
        return self._storage

    def settle(self) -> None:
        """Do nothing: a database needs no check of its file."""

    def is_intact(self) -> bool:
        """Return True: a database recovers from crashes by itself."""
        return True

    def close(self) -> None:
        """Close all connections."""
        if self._storage is not None:
            self._storage.remove_session()
            self._storage.engine.dispose()
            self._storage = None

    def _make_lock(self) -> Lock:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        if self.file is not None:
            lock_path = self.file.with_name(f"{self.file.name}.turn")
            return lambda: file_lock(lock_path)
        return database_lock(
            create_engine(self.url, poolclass=NullPool, connect_args=_connect_args(self.url))
        )


def _parse(text: str) -> "URL":
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            f"sweep.storage is not the URL of a database: write {FORMS}, "
            "or null for a journal file in the sweep's folder"
        ) from error
    kind = url.get_backend_name()
    if kind not in {"postgresql", "mysql", "sqlite"}:
        raise ConfigError(
            f"sweep.storage: the database {kind} is not supported; write {FORMS}"
            f"{did_you_mean(kind, ('postgresql', 'mysql', 'sqlite'))}"
        )
    # A database in memory has no file that other processes could read or lock.
    if kind == "sqlite" and (not url.database or url.database.startswith((":", "file:"))):
        raise ConfigError("sweep.storage: SQLite needs a file: write sqlite:///FILE")
    if url.drivername == "postgresql":
        # SQLAlchemy would choose psycopg2, but rlexp's extra installs psycopg 3.
        url = url.set(drivername="postgresql+psycopg")
    _check_driver(url)
    return url


def _check_driver(url: "URL") -> None:
    from sqlalchemy.exc import NoSuchModuleError

    driver = url.drivername.partition("+")[2]
    try:
        dialect = url.get_dialect()
        driver = dialect.driver
        if dialect.is_async:
            raise ConfigError(f"sweep.storage: the driver {driver} is asynchronous; write {FORMS}")
        dialect.import_dbapi()
    except (ImportError, NoSuchModuleError) as error:
        default = driver == "psycopg"
        package = PACKAGES.get("postgresql" if default else driver, driver)
        raise ConfigError.missing_package(
            f"sweep.storage: the driver {driver} is not installed", f"pip install '{package}'"
        ) from error


def _connect_args(url: "URL") -> dict[str, Any]:
    """Timeouts for a server that does not answer; options in the URL override them."""
    keep_alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
    limits: dict[str, int] = {
        "sqlite": {"timeout": TIMEOUT},
        "mysql": {"connect_timeout": TIMEOUT},
        # libpq reads `tcp_user_timeout` in milliseconds and the other times in seconds.
        "postgresql": {"connect_timeout": TIMEOUT, "tcp_user_timeout": 20_000, **keep_alive},
    }[url.get_backend_name()]
    return {key: value for key, value in limits.items() if key not in url.query}
