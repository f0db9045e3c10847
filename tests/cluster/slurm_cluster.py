"""A Slurm cluster of one node on this machine, in a temporary folder."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
SYSTEM_FOLDERS = "/usr/sbin:/sbin"
"""Folders of daemons on Debian, which may be missing from PATH."""
CONFIGURATION = """
ClusterName=rlexp
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CryptoType=crypto/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
KillWait=15
SlurmdTimeout=20
MinJobAge=60
EnforcePartLimits=ALL
MaxArraySize=4
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=60 State=UP PriorityTier=1 GraceTime=20
PartitionName=high Nodes={host} MaxTime=60 State=UP PriorityTier=10
"""


def missing_program() -> str | None:
    """The name of the first Slurm program that is not installed."""
    return next((name for name in PROGRAMS if _program(name) is None), None)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:{SYSTEM_FOLDERS}")


@dataclass(slots=True)
class Cluster:
    """The daemons of a cluster, which can be stopped and started one by one."""

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """The path of the configuration file, for `SLURM_CONF`."""
        return self.folder / "slurm.conf"

    def start(self, name: str) -> None:
        """Start a daemon."""
        arguments = {
            "munged": (
                *("--foreground", "--force", f"--socket={self.folder}/munge.socket"),
                *(f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munged.pid"),
                *(f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/seed"),
            ),
            "slurmctld": ("-D", "-f", str(self.configuration)),
            "slurmd": ("-D", "-f", str(self.configuration)),
        }
        program = _program(name)
        assert program is not None
        with (self.folder / f"{name}.output").open("ab") as output:
            self.daemons[name] = subprocess.Popen(
                [program, *arguments[name]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "SLURM_CONF": str(self.configuration)},
            )

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon; its jobs keep running."""
        daemon = self.daemons.pop(name, None)
        if daemon is not None:
            daemon.send_signal(number)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def ask(self, *arguments: str) -> str:
        """Run a Slurm command and return its output."""
        result = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SLURM_CONF": str(self.configuration)},
        )
        return result.stdout.strip()

    def is_idle(self) -> bool:
        """Whether the node is free for jobs."""
        return "idle" in self.ask("sinfo", "-h", "-o", "%T")

    def end_processes(self) -> None:
        """End all processes of the cluster's jobs."""
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if self._is_job(process):
                    process.kill()

    def _is_job(self, process: psutil.Process) -> bool:
        # slurmstepd overwrites its environment with its title, but it opens the daemon's log.
        if process.name() == "slurmstepd":
            return str(self.folder / "slurmd.log") in [file.path for file in process.open_files()]
        variables = process.environ()
        same_cluster = variables.get("SLURM_CONF") == str(self.configuration)
        return same_cluster and "SLURM_JOB_ID" in variables

    def empty(self) -> None:
        """Cancel every job and wait until none is left."""
        self.ask("scancel", "--full", "--signal=KILL", f"--user={os.getuid()}")
        self.ask("scancel", f"--user={os.getuid()}")
        wait_until(lambda: not self.ask("squeue", "-h"), seconds=40)


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not become true in {seconds:g} s"
        time.sleep(0.2)


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Run a cluster; at the end remove its folder and end all processes of its jobs."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = Cluster(folder)
        _configure(cluster)
        stack.callback(cluster.end_processes)
        for name in ("munged", "slurmctld", "slurmd"):
            cluster.start(name)
            stack.callback(cluster.kill, name, signal.SIGTERM)
        stack.callback(cluster.empty)
        wait_until(cluster.is_idle)
        yield cluster


def _configure(cluster: Cluster) -> None:
    (cluster.folder / "state").mkdir()
    (cluster.folder / "spool").mkdir()
    key = cluster.folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    cluster.configuration.write_text(
        CONFIGURATION.format(
            folder=cluster.folder,
            host=socket.gethostname().partition(".")[0],
            user=pwd.getpwuid(os.getuid()).pw_name,
            controller_port=free_port(),
            node_port=free_port(),
        )
    )


def free_port() -> int:
    """A port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
