"""A temporary PostgreSQL server, run by an ordinary user in a temporary folder."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
PASSWORD = "opensesame-{%}"
"""With characters that URLs, Alembic and Optuna's templates each treat in their own way."""


def binaries() -> Path | None:
    """The folder of `initdb` and `pg_ctl`, which Debian does not put on PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if found:
        return found[-1].parent
    path = shutil.which("pg_ctl")
    return Path(path).resolve().parent if path else None


@dataclass(frozen=True, slots=True)
class Server:
    """A server on a port of 127.0.0.1 and a socket in its folder."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        """Of its database, with the password."""
        return f"postgresql://rlexp:opensesame-%7B%25%7D@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._control("start", "-l", str(self.folder / "log"))

    def stop(self) -> None:
        """Stop it as a crash would."""
        self._control("stop", "-m", "immediate")

    def restart(self) -> None:
        """Crash it and start it again."""
        self._control("restart", "-m", "immediate", "-l", str(self.folder / "log"))

    def empty(self) -> None:
        """Drop every table."""
        sql = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"
        socket_folder = ["-h", str(self.folder), "-p", str(self.port), "-U", "rlexp", "postgres"]
        run([str(self.programs / "psql"), "-q", "-c", sql, *socket_folder])

    def _control(self, *words: str) -> None:
        run([str(self.programs / "pg_ctl"), "-w", "-s", "-D", str(self.folder / "data"), *words])


def run(command: list[str]) -> None:
    """Run a program of the server as an ordinary user, because it refuses root."""
    nobody = NOBODY if os.getuid() == 0 else None
    # The server inherits what it may write to: a pipe would be open as long as it runs.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PGPASSWORD": PASSWORD, "LC_ALL": "C.UTF-8"},
            cwd="/",
            timeout=60,
            check=False,
            user=nobody,
            group=nobody,
            extra_groups=None if nobody is None else (),
        )
        output.seek(0)
        assert done.returncode == 0, output.read().decode(errors="replace")


def free_port() -> int:
    """A port without a listening process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_server(programs: Path) -> Iterator[Server]:
    """A running server, which is stopped and deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        server = Server(programs, folder, free_port())
        (folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
            os.chown(folder / "password", NOBODY, NOBODY)
        _initialise(server)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _initialise(server: Server) -> None:
    settings = {
        "fsync": "off",
        "listen_addresses": "'127.0.0.1'",
        "port": str(server.port),
        "unix_socket_directories": f"'{server.folder}'",
        "shared_buffers": "'8MB'",
    }
    words = ["-U", "rlexp", "-A", "scram-sha-256", "--pwfile", str(server.folder / "password")]
    data = server.folder / "data"
    run([str(server.programs / "initdb"), "-D", str(data), "-E", "UTF8", "--no-sync", *words])
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{key} = {value}\n" for key, value in settings.items())
