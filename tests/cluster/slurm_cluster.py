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
"""Where Debian keeps daemons, which is not on everybody's PATH."""
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
    """The first program of Slurm's that is not here."""
    return next((name for name in PROGRAMS if _program(name) is None), None)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:{SYSTEM_FOLDERS}")


@dataclass(slots=True)
class Cluster:
    """Its daemons, which can be stopped and started one by one."""

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """The file that `SLURM_CONF` names."""
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
        """End a daemon, its jobs left as they are."""
        daemon = self.daemons.pop(name, None)
        if daemon is not None:
            daemon.send_signal(number)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def ask(self, *arguments: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SLURM_CONF": str(self.configuration)},
        )
        return done.stdout.strip()

    def is_idle(self) -> bool:
        """Whether the node takes jobs."""
        return "idle" in self.ask("sinfo", "-h", "-o", "%T")

    def end_processes(self) -> None:
        """End the steps of jobs and what they started."""
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if self._is_job(process):
                    process.kill()

    def _is_job(self, process: psutil.Process) -> bool:
        # A step writes its title over its variables, but it holds the log of its daemon.
        if process.name() == "slurmstepd":
            return str(self.folder / "slurmd.log") in [file.path for file in process.open_files()]
        variables = process.environ()
        ours = variables.get("SLURM_CONF") == str(self.configuration)
        return ours and "SLURM_JOB_ID" in variables

    def empty(self) -> None:
        """Cancel every job and wait until none is left."""
        self.ask("scancel", "--full", "--signal=KILL", f"--user={os.getuid()}")
        self.ask("scancel", f"--user={os.getuid()}")
        wait_until(lambda: not self.ask("squeue", "-h"), seconds=40)


def wait_until(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{is_so} did not become true in {seconds:g} s"
        time.sleep(0.2)


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A cluster that is gone at the end, with its folder and all that its jobs started."""
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
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
