"""Checks the machine: cores, threads, disk, locks, git, accelerator."""

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from rlexp.app.diagnostics.finding import Finding, fail, ok, warn
from rlexp.errors import RecordError
from rlexp.executors.devices import ask_driver
from rlexp.executors.lifetime import ends_every_process
from rlexp.executors.local import THREAD_VARIABLES
from rlexp.store.file_systems import VARIABLE, is_shared, network_file_system
from rlexp.store.files import probe_writable
from rlexp.store.locks.lease import hold, is_held
from rlexp.store.provenance import packages, read_code, usable_cores
from rlexp.text import format_bytes

WARN_BELOW = 2_000_000_000
"""Bytes of free disk below which the check warns."""
FAIL_BELOW = 50_000_000
"""Bytes of free disk below which runs will fail."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""The file with the processor time that the control group grants."""


def check_machine(folder: Path, runs: Path) -> list[Finding]:
    """Check what runs need from this machine.

    Args:
        folder: The workspace's folder.
        runs: The folder of its records, which need not exist yet.
    """
    return [
        check_cores(usable_cores(), cpu_quota(QUOTA)),
        *check_threads(os.environ),
        *check_disk(runs),
        check_processes(ends_every_process()),
        _git(folder, runs),
        check_gpu(ask_driver("name"), packages().get("torch", "")),
    ]


def check_cores(cores: int, quota: float | None) -> Finding:
    """Check how many runs fit; a container may allow fewer cores than are visible."""
    summary = f"{cores}: as many runs at a time with compute.threads=1"
    if quota is not None and quota < cores:
        return warn(
            "cores",
            f"{cores} are visible, but this container may use only {quota:g}",
            f"rlexp run … executor.workers={max(1, int(quota))}",
        )
    return ok("cores", summary)


def cpu_quota(path: Path) -> float | None:
    """The number of cores that the control group grants, or None without a limit."""
    try:
        # Without a limit the file says `max`, which is no number.
        granted, period = path.read_text().split()
        return int(granted) / int(period)
    except (OSError, ValueError):
        return None


def check_threads(environment: Mapping[str, str]) -> list[Finding]:
    """Report variables for threads: runs ignore them, other programs use them."""
    variables = [f"{name}={environment[name]}" for name in THREAD_VARIABLES if name in environment]
    if not variables:
        return [ok("threads", "compute.threads decides (by default 1 for each run)")]
    return [ok("threads", f"{', '.join(variables)} set; runs use compute.threads nevertheless")]


def check_disk(runs: Path) -> list[Finding]:
    """Check that records can be written, that the disk has space, and that locks work."""
    folder = _existing(runs)
    try:
        probe_writable(folder)
    except RecordError as error:
        return [fail("disk", str(error), "")]
    free = shutil.disk_usage(folder).free
    summary = f"{format_bytes(free)} free at {folder}"
    advice = "free disk space, or set RLEXP_RUNS to a folder on another disk"
    if free < FAIL_BELOW:
        space = fail("disk", summary, advice)
    elif free < WARN_BELOW:
        space = warn("disk", summary, advice)
    else:
        space = ok("disk", f"{summary}, writable")
    return [space, check_lock(folder)]


def check_lock(folder: Path) -> Finding:
    """Check that the file system refuses to lock a file twice."""
    path = folder / f".probe-{uuid4().hex[:8]}"
    try:
        with hold(path, "a probe", now=time.time()):
            works = is_held(path)
    except (OSError, RecordError, NotImplementedError) as error:
        works, reason = False, str(error)
    else:
        reason = "a held lock can be taken a second time"
    finally:
        with suppress(OSError):
            path.unlink()
    if works and is_shared(path):
        kind = network_file_system(folder) or f"{VARIABLE}=1"
        return ok("locks", f"leases are used in {folder}, which other machines may share ({kind})")
    if works:
        return ok("locks", f"files can be locked in {folder}")
    return fail(
        "locks",
        f"files cannot be locked in {folder}: {reason}",
        "set RLEXP_RUNS to a folder on a local disk",
    )


def check_processes(by_kernel: bool) -> Finding:
    """Check whether a process ends with its run, where the run started it in a separate session.

    Args:
        by_kernel: Whether the kernel can end such processes.
    """
    if by_kernel:
        return ok(
            "processes",
            "all that a run starts ends with it; only kill -9 of the server and the run's guard at "
            "the same time leaves processes in sessions of their own",
        )
    return warn(
        "processes",
        "this system cannot end processes of a run in sessions of their own, such as simulators",
        "end them yourself after a run, or execute runs on Linux",
    )


def _existing(path: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _git(folder: Path, runs: Path) -> Finding:
    if shutil.which("git") is None:
        return warn("git", "not found: records will not name the code", "install git")
    code = read_code(folder, runs)
    if code.commit is None:
        return warn(
            "git",
            f"{folder} has no commit: records will not name the code",
            "git init, git add, git commit",
        )
    return ok("git", str(code))


def check_gpu(gpus: list[str], torch: str) -> Finding:
    """Check whether compute.device=cuda can work.

    Args:
        gpus: Names of the accelerators.
        torch: The version of torch, whose suffix names its build (`2.13.0+cpu`).
    """
    if not gpus:
        return ok("gpu", "none; compute.device=cpu")
    if torch.endswith("+cpu"):
        return warn(
            "gpu",
            f"{', '.join(gpus)}, but torch {torch} is built without CUDA",
            "install a build of torch with CUDA, or use compute.device=cpu",
        )
    return ok("gpu", f"{', '.join(gpus)}: compute.device=cuda")
