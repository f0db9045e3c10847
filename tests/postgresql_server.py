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
"""A password with characters that URLs, Alembic and the templates of Optuna treat differently."""


def binaries() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; Debian does not put this folder on PATH."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if programs:
        return programs[-1].parent
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
        """The URL of the database, with the password."""
        return f"postgresql://rlexp:opensesame-%7B%25%7D@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._control("start", "-l", str(self.folder / "log"))

    def stop(self) -> None:
        """Stop the server as a crash would."""
        self._control("stop", "-m", "immediate")

    def restart(self) -> None:
        """Crash the server and start it again."""
        self._control("restart", "-m", "immediate", "-l", str(self.folder / "log"))

    def empty(self) -> None:
        """Drop every table of the database."""
        sql = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"
        socket_folder = ["-h", str(self.folder), "-p", str(self.port), "-U", "rlexp", "postgres"]
        run([str(self.programs / "psql"), "-q", "-c", sql, *socket_folder])

    def _control(self, *words: str) -> None:
        run([str(self.programs / "pg_ctl"), "-w", "-s", "-D", str(self.folder / "data"), *words])


def run(command: list[str]) -> None:
    """Run a program of the server as an ordinary user, because it refuses root."""
    user = NOBODY if os.getuid() == 0 else None
    # The server inherits its output; a pipe would stay open as long as the server runs.
    with tempfile.TemporaryFile() as output:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PGPASSWORD": PASSWORD, "LC_ALL": "C.UTF-8"},
            cwd="/",
            timeout=60,
            check=False,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
        )
        output.seek(0)
        assert process.returncode == 0, output.read().decode(errors="replace")


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
