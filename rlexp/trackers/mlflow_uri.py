"""The destination of the MLflow tracker: a server, or a SQLite database in the project's folder."""

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
"""The database that `mlflow ui` without arguments opens in the folder where it is started."""
ARTIFACTS = "mlartifacts"
"""The folder of the artifacts, beside the database."""
SCHEMES = ("http", "https", "sqlite")
VIEW_KEY = "rlexp"
"""The name of the view that the tracker stores: the runs with their scores."""
CURVES_KEY = "rlexp_curves"
"""The name of the stored view of the curves of labels."""
FORMS = "http(s)://HOST:PORT or sqlite:///FILE, or null for mlflow.db beside runs/"


@dataclass(frozen=True, slots=True)
class MLflowLocation:
    """A server or a database of MLflow.

    Attributes:
        uri: The tracking URI, credentials included.
        file: The database file; None for a server.
    """

    uri: str
    file: Path | None = None

    @property
    def shown(self) -> str:
        """The name in messages: without credentials and options, which may contain some."""
        if self.file is not None:
            return str(self.file)
        parts = _split(self.uri)
        if parts is None or not parts.scheme:
            return "tracker.mlflow.uri"
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts of the URI that no message may contain."""
        parts = None if self.file is not None else _split(self.uri)
        login = parts.netloc.rpartition("@")[0] if parts else ""
        password = login.partition(":")[2]
        options = parts.query if parts else ""
        return tuple(s for s in (login, password, unquote(password), options) if s)

    @property
    def artifacts(self) -> str | None:
        """Where a new experiment keeps its artifacts; None lets the server decide."""
        return None if self.file is None else (self.file.parent / ARTIFACTS).as_uri()


def find_location(
    uri: str | None, project: Path, environment: Mapping[str, str]
) -> MLflowLocation:
    """The location that the setting or the environment variable names, not yet checked.

    Args:
        uri: The setting `tracker.mlflow.uri`, if it is set.
        project: The folder that holds `runs/`.
        environment: Environment variables.
    """
    chosen = (uri or environment.get(VARIABLE) or f"sqlite:///{FILE}").strip()
    if not chosen.startswith("sqlite:"):
        return MLflowLocation(chosen)
    file = (project / chosen.removeprefix("sqlite:").removeprefix("///")).resolve()
    return MLflowLocation(f"sqlite:///{file}", file)


def check_location(location: MLflowLocation) -> None:
    """Check that the URI can be used.

    Raises:
        TrackerRefused: The scheme is unknown or the host missing; the file has no folder.
    """
    if location.file is not None:
        _check_file(location.file)
        return
    parts = _split(location.uri)
    scheme = parts.scheme if parts else ""
    if parts is None or scheme not in SCHEMES:
        what = f"the scheme {scheme}: is not supported" if scheme else "the value is not a URI"
        raise TrackerRefused(
            f"tracker.mlflow.uri (or {VARIABLE}): {what}: write {FORMS}"
            f"{did_you_mean(scheme, SCHEMES)}"
        )
    if not parts.hostname:
        raise TrackerRefused(f"tracker.mlflow.uri (or {VARIABLE}) has no host: write {FORMS}")


def make_database(file: Path, unique: str, make: Callable[[Path], None]) -> None:
    """Create the database if it is missing, completely or not at all.

    MLflow creates its tables one by one; a process that is killed meanwhile would leave a database
    that cannot be opened.

    Args:
        file: The database file.
        unique: Letters that no other process uses at the same time.
        make: Creates the tables in a file.
    """
    if file.exists() and file.stat().st_size:
        return
    unfinished = file.with_name(f".{file.name}.{unique}")
    unfinished.unlink(missing_ok=True)
    try:
        make(unfinished)
        if file.exists() and not file.stat().st_size:
            file.unlink()
        try:
            # Unlike a rename, a link fails if the file exists: the database of another process that
            # was faster is never replaced.
            os.link(unfinished, file)
        except FileExistsError:
            pass  # another process was faster
        except OSError:
            # The file system has no hard links. A rename may replace the database of another
            # process, which so far holds empty tables only.
            unfinished.rename(file)
    finally:
        unfinished.unlink(missing_ok=True)


def check_database(file: Path, revision: str) -> None:
    """Check that a file is a database of this MLflow version and can be written.

    MLflow itself would try for minutes to open an unusable file, and would migrate an older one.

    Args:
        file: An existing file.
        revision: The schema version of the installed MLflow.

    Raises:
        TrackerRefused: The file is something else, read-only, or of another version.
        TrackerUnreachable: Another process has locked the database.
    """
    try:
        with closing(sqlite3.connect(file, timeout=1, isolation_level=None)) as database:
            # Takes the write lock, so that a read-only or locked file is noticed now.
            database.execute("BEGIN IMMEDIATE")
            version_row = database.execute("SELECT version_num FROM alembic_version").fetchone()
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise TrackerUnreachable(f"{file} is locked by another process") from error
        if "no such table" in str(error):
            raise TrackerRefused(f"{file} is a database, but not one of MLflow") from error
        raise TrackerRefused(f"{file} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise TrackerRefused(f"{file} is not a SQLite database: {error}") from error
    if version_row is None or version_row[0] != revision:
        raise TrackerRefused(
            f"{file} was written by another version of MLflow: copy the file, then run "
            f"mlflow db upgrade sqlite:///{file}"
        )


def _check_file(file: Path) -> None:
    if set("%?") & set(str(file)):
        # MLflow decodes these letters as parts of a URL and opens another file.
        raise TrackerRefused(
            f"MLflow cannot use {file}: the path contains % or ?; set another tracker.mlflow.uri"
        )
    if not file.parent.is_dir():
        raise TrackerRefused(f"tracker.mlflow.uri: the folder {file.parent} does not exist")
    if file.is_dir() or file.name.startswith(":"):
        raise TrackerRefused(f"tracker.mlflow.uri: {file} is not a file: write sqlite:///FILE")
    if not file.exists() and not os.access(file.parent, os.W_OK):
        raise TrackerRefused(f"{file} cannot be created: its folder is not writable")


def _split(uri: str) -> SplitResult | None:
    """The parts of a URI; None if the text, its host or its port is invalid."""
    try:
        parts = urlsplit(uri)
        # Only access checks the port.
        _ = parts.port
    except ValueError:
        return None
    return parts


def run_list_page(server: str, experiment: str | None) -> str:
    """The address of an experiment's list of runs, with their scores.

    Without the type of workflow, MLflow opens its page on traces of language models.

    Args:
        server: The address of the server or of `mlflow ui`.
        experiment: MLflow's id of the experiment; None for the list of all experiments.
    """
    page = f"{server.rstrip('/')}/#/experiments"
    if experiment is None:
        return f"{page}?workflowType=machine_learning"
    return f"{page}/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={VIEW_KEY}"


def curves_page(experiment: str) -> str:
    """The address of an experiment's curves, grouped by label, within the pages of MLflow."""
    page = f"#/experiments/{experiment}/runs?workflowType=machine_learning"
    return f"{page}&viewStateShareKey={CURVES_KEY}&compareRunsMode=CHART"
