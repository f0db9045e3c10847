"""Where an MLflow tracker mirrors to: a server, or a SQLite database in the project's folder."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from rlexp.errors import TrackerRefused, TrackerUnreachable, did_you_mean

VARIABLE = "MLFLOW_TRACKING_URI"
FILE = "mlflow.db"
"""What `mlflow ui`, given no arguments, opens in the folder where it is started."""
ARTIFACTS = "mlartifacts"
"""Where it keeps artifacts, beside the database."""
SCHEMES = ("http", "https", "sqlite")
FORMS = "http(s)://HOST:PORT or sqlite:///FILE, or null for mlflow.db beside runs/"


@dataclass(frozen=True, slots=True)
class MLflowLocation:
    """A place to mirror to.

    Attributes:
        uri: As MLflow takes it, credentials included.
        file: The database, where it is one.
    """

    uri: str
    file: Path | None = None

    @property
    def shown(self) -> str:
        """How messages name it: without credentials and options, which may hold some."""
        if self.file is not None:
            return str(self.file)
        parts = _split(self.uri)
        if parts is None or not parts.scheme:
            return "tracker.mlflow.uri"
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may say."""
        parts = None if self.file is not None else _split(self.uri)
        login = parts.netloc.rpartition("@")[0] if parts else ""
        password = login.partition(":")[2]
        options = parts.query if parts else ""
        return tuple(s for s in (login, password, unquote(password), options) if s)

    @property
    def artifacts(self) -> str | None:
        """Where a new experiment keeps its artifacts; a server decides itself."""
        return None if self.file is None else (self.file.parent / ARTIFACTS).as_uri()


def find_location(
    uri: str | None, project: Path, environment: Mapping[str, str]
) -> MLflowLocation:
    """The place that settings and variables name; nothing is checked.

    Args:
        uri: As it is set, if it is.
        project: The folder in which `runs/` is.
        environment: Variables of the process.
    """
    chosen = (uri or environment.get(VARIABLE) or f"sqlite:///{FILE}").strip()
    if not chosen.startswith("sqlite:"):
        return MLflowLocation(chosen)
    file = (project / chosen.removeprefix("sqlite:").removeprefix("///")).resolve()
    return MLflowLocation(f"sqlite:///{file}", file)


def check_location(place: MLflowLocation) -> None:
    """Refuse what cannot be a place.

    Raises:
        TrackerRefused: The scheme is unknown or the host missing; the file has no folder.
    """
    if place.file is not None:
        _check_file(place.file)
        return
    parts = _split(place.uri)
    scheme = parts.scheme if parts else ""
    if parts is None or scheme not in SCHEMES:
        what = f"{scheme}: is no scheme for it" if scheme else "it is no URI"
        raise TrackerRefused(
            f"tracker.mlflow.uri (or {VARIABLE}): {what}: write {FORMS}"
            f"{did_you_mean(scheme, SCHEMES)}"
        )
    if not parts.hostname:
        raise TrackerRefused(f"tracker.mlflow.uri (or {VARIABLE}) names no host: write {FORMS}")


def make_database(file: Path, own: str, make: Callable[[Path], None]) -> None:
    """Make a database where there is none, whole or not at all.

    MLflow makes its tables one by one, and one that is killed meanwhile leaves a database that
    nothing can open any more.

    Args:
        file: Where it is to be.
        own: Letters that no other process uses at the same time.
        make: Makes a database in a file.
    """
    if file.exists() and file.stat().st_size:
        return
    half = file.with_name(f".{file.name}.{own}")
    half.unlink(missing_ok=True)
    try:
        make(half)
        if file.exists() and not file.stat().st_size:
            file.unlink()
        try:
            os.link(half, file)
        except FileExistsError:
            pass  # another process was faster
        except OSError:
            # The file system has no links; what little can go wrong now does no harm.
            half.rename(file)
    finally:
        half.unlink(missing_ok=True)


def check_database(file: Path, revision: str) -> None:
    """Make sure that a file is a database of this MLflow, and can be written.

    MLflow would try for minutes to open one that cannot be, and changes an older one on the way.

    Args:
        file: An existing file.
        revision: Of the tables that this MLflow knows.

    Raises:
        TrackerRefused: It is something else, read-only, or of another version.
        TrackerUnreachable: Another process holds it.
    """
    try:
        with closing(sqlite3.connect(file, timeout=1, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            found = database.execute("SELECT version_num FROM alembic_version").fetchone()
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise TrackerUnreachable(f"{file} is locked by another process") from error
        if "no such table" in str(error):
            raise TrackerRefused(f"{file} is a database, but none of MLflow's") from error
        raise TrackerRefused(f"{file} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise TrackerRefused(f"{file} is no SQLite database: {error}") from error
    if found is None or found[0] != revision:
        raise TrackerRefused(
            f"{file} was written by another version of MLflow: keep a copy of it, then "
            f"mlflow db upgrade sqlite:///{file}"
        )


def _check_file(file: Path) -> None:
    if set("%?") & set(str(file)):
        # MLflow reads these letters as an address would mean them, and looks elsewhere.
        raise TrackerRefused(f"MLflow cannot use {file}: its name holds % or ?; set another uri")
    if not file.parent.is_dir():
        raise TrackerRefused(f"tracker.mlflow.uri: there is no folder {file.parent}")
    if file.is_dir() or file.name.startswith(":"):
        raise TrackerRefused(f"tracker.mlflow.uri: {file} is no file: write sqlite:///FILE")
    if not file.exists() and not os.access(file.parent, os.W_OK):
        raise TrackerRefused(f"{file} cannot be made: its folder cannot be written")


def _split(uri: str) -> SplitResult | None:
    """The parts of a URI; nothing where it is none, for its host or its port."""
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts
