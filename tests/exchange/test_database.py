"""Valid and invalid URLs of databases."""

import sys
from pathlib import Path

import pytest

from rlexp.errors import ConfigError
from rlexp.exchange.database import Database, _connect_args


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "not the URL of a database"),
        ("secret-file.db", "not the URL of a database"),
        ("postgresql://u:secret@host:port/d", "not the URL of a database"),
        ("postgres://u:secret@host/d", "postgres is not supported.* did you mean 'postgresql'"),
        ("redis://:secret@host", "redis is not supported"),
        ("mssql://u:secret@host/d", "mssql is not supported"),
        ("sqlite://", "SQLite needs a file: write sqlite:///FILE"),
        ("sqlite:///:memory:", "SQLite needs a file"),
        ("sqlite:///file:secret?uri=true", "SQLite needs a file"),
        ("mysql://u:secret@host/d", "mysqldb is not installed: pip install 'mysqlclient'"),
        ("mysql+pymysql://u:secret@h/d", "pymysql is not installed: pip install 'pymysql'"),
        ("postgresql+nonsense://u:secret@h/d", "the driver nonsense is not installed"),
        ("sqlite+aiosqlite:///secret", "the driver aiosqlite is asynchronous"),
    ],
)
def test_bad_urls(url: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid URL is refused in one line with the allowed forms and without the URL."""
    for driver in ("MySQLdb", "pymysql"):
        monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigError, match=message) as caught:
        Database(url)
    assert 1 == len(str(caught.value).splitlines())
    assert "secret" not in str(caught.value)


def test_driver_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the driver of PostgreSQL is missing, the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"pip install 'rlexp\[postgresql\]'"):
        Database("postgresql://u@host/d")


def test_shown_without_secrets() -> None:
    """A URL is shown without its password and without its options."""
    pytest.importorskip("psycopg")
    database = Database("postgresql://me:se%40cret@host:5432/d?sslmode=require&sslpassword=hidden")
    assert "postgresql+psycopg://me:***@host:5432/d" == database.shown
    assert {"se@cret", "hidden"} == set(database.secrets)


def test_connection_timeouts() -> None:
    """Connections have a timeout, which an option in the URL overrides."""
    pytest.importorskip("psycopg")
    assert 3 == _connect_args(Database("postgresql://h/d").url)["connect_timeout"]
    url = Database("postgresql://h/d?connect_timeout=30").url
    assert "connect_timeout" not in _connect_args(url)


def test_nothing_is_opened(tmp_path: Path) -> None:
    """Parsing a URL opens no file and no connection."""
    Database(f"sqlite:///{tmp_path}/x.db")
    assert [] == list(tmp_path.iterdir())
