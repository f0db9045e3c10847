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
"""Seconds in which a database must take a connection, or give up a lock of its own."""
FORMS = "postgresql://USER:PASSWORD@HOST/DATABASE, mysql://… or sqlite:///FILE"
PACKAGES = {
    "postgresql": "rlexp[postgresql]",
    "psycopg2": "psycopg2-binary",
    "mysqldb": "mysqlclient",
    "pymysql": "pymysql",
}
"""What to install, by a driver's or a database's name."""


class Database:
    """A study's database. Not for several threads."""

    def __init__(self, url: str) -> None:
        """Read the URL; nothing is connected yet.

        Raises:
            ConfigError: It is no URL, of an unknown kind, or its driver is not installed.
        """
        self.url = _parse(url)
        self._storage: RDBStorage | None = None
        self._turn: Lock | None = None

    @property
    def shown(self) -> str:
        """How messages name it: without the password, and without options, which may hold one."""
        return self.url.set(query={}).render_as_string(hide_password=True)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may say."""
        hidden = ("pass", "secret", "token", "key")
        options = [
            v for k, v in self.url.query.items() if any(word in k.lower() for word in hidden)
        ]
        texts = [one for v in options for one in ((v,) if isinstance(v, str) else v)]
        return tuple(s for s in (self.url.password, *texts) if s)

    @property
    def file(self) -> Path | None:
        """Where it is, if it is a file of SQLite's."""
        name = self.url.database
        return Path(name).absolute() if name and self.url.get_backend_name() == "sqlite" else None

    def turn(self) -> AbstractContextManager[None]:
        """Keep other processes of ours away, from a database that has no tables yet too.

        Two that create Optuna's tables at once would break each other.
        """
        if self._turn is None:
            self._turn = self._make_turn()
        return self._turn()

    def open(self) -> "BaseStorage":
        """The storage, with its tables."""
        from optuna.storages import RDBStorage

        self.close()
        url = self.url.render_as_string(hide_password=False)
        self._storage = RDBStorage(
            url.replace("{", "{{").replace("}", "}}"),  # Optuna fills in what stands in braces
            engine_kwargs={"pool_pre_ping": True, "connect_args": _connect_args(self.url)},
        )
        return self._storage

    def settle(self) -> None:
        """Nothing to remember: a database keeps its own state whole."""

    def is_intact(self) -> bool:
        """A database repairs itself."""
        return True

    def close(self) -> None:
        """Give back the connections."""
        if self._storage is not None:
            self._storage.remove_session()
            self._storage.engine.dispose()
            self._storage = None

    def _make_turn(self) -> Lock:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        if self.file is not None:
            beside = self.file.with_name(f"{self.file.name}.turn")
            return lambda: file_lock(beside)
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
            f"sweep.storage: {kind} is no database that a sweep is mirrored to; write {FORMS}"
            f"{did_you_mean(kind, ('postgresql', 'mysql', 'sqlite'))}"
        )
    if kind == "sqlite" and (not url.database or url.database.startswith((":", "file:"))):
        raise ConfigError("sweep.storage: SQLite needs a file: write sqlite:///FILE")
    if url.drivername == "postgresql":
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
        raise ConfigError(
            f"sweep.storage: the driver {driver} is not installed: pip install '{package}'",
            code="missing_package",
            command=f"pip install '{package}'",
        ) from error


def _connect_args(url: "URL") -> dict[str, Any]:
    """Limits for a server that does not answer; what the URL says itself goes first."""
    keep_alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
    limits: dict[str, int] = {
        "sqlite": {"timeout": TIMEOUT},
        "mysql": {"connect_timeout": TIMEOUT},
        "postgresql": {"connect_timeout": TIMEOUT, "tcp_user_timeout": 20_000, **keep_alive},
    }[url.get_backend_name()]
    return {key: value for key, value in limits.items() if key not in url.query}
