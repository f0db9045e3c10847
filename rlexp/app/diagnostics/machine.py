"""Checks of the machine: cores, threads, disk, locks, git, accelerator."""

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
from rlexp.executors.local import THREAD_VARIABLES
from rlexp.store.file_systems import VARIABLE, is_shared, network_file_system
from rlexp.store.files import probe_writable
from rlexp.store.lease import hold, is_held
from rlexp.store.provenance import packages, read_code, usable_cores
from rlexp.text import size

LITTLE = 2_000_000_000
"""Bytes of free disk under which there is a warning."""
NOTHING = 50_000_000
"""Bytes of free disk under which runs will fail."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def check_machine(folder: Path, runs: Path) -> list[Finding]:
    """Check what runs need of this machine.

    Args:
        folder: The workspace's folder.
        runs: Where its records lie, or will.
    """
    return [
        check_cores(usable_cores(), cpu_quota(QUOTA)),
        *check_threads(os.environ),
        *check_disk(runs),
        _git(folder, runs),
        check_gpu(ask_driver("name"), packages().get("torch", "")),
    ]


def check_cores(cores: int, quota: float | None) -> Finding:
    """Say how many runs fit; a container may allow less than its cores suggest."""
    told = f"{cores}: as many runs at a time with compute.threads=1"
    if quota is not None and quota < cores:
        return warn(
            "cores",
            f"{cores} are visible, but this container may use only {quota:g}",
            f"rlexp run … executor.workers={max(1, int(quota))}",
        )
    return ok("cores", told)


def cpu_quota(path: Path) -> float | None:
    """How many cores the control group grants, or nothing where it does not limit them."""
    try:
        granted, period = path.read_text().split()
        return int(granted) / int(period)
    except (OSError, ValueError):
        return None


def check_threads(environment: Mapping[str, str]) -> list[Finding]:
    """Say that variables for threads are set: runs do not read them, other programs do."""
    told = [f"{name}={environment[name]}" for name in THREAD_VARIABLES if name in environment]
    if not told:
        return [ok("threads", "compute.threads decides (1 a run unless asked otherwise)")]
    return [ok("threads", f"{', '.join(told)} set; runs obey compute.threads all the same")]


def check_disk(runs: Path) -> list[Finding]:
    """Check that records can be written, that there is room, and that locks lock."""
    place = _existing(runs)
    try:
        probe_writable(place)
    except RecordError as error:
        return [fail("disk", str(error), "")]
    free = shutil.disk_usage(place).free
    told = f"{size(free)} free at {place}"
    room = "free some, or set RLEXP_RUNS to a folder on another disk"
    if free < NOTHING:
        space = fail("disk", told, room)
    elif free < LITTLE:
        space = warn("disk", told, room)
    else:
        space = ok("disk", f"{told}, which can be written")
    return [space, check_lock(place)]


def check_lock(place: Path) -> Finding:
    """Check that the file system refuses a lock which is held."""
    path = place / f".probe-{uuid4().hex[:8]}"
    try:
        with hold(path, "a probe", now=time.time()):
            works = is_held(path)
    except (OSError, RecordError, NotImplementedError) as error:
        works, reason = False, str(error)
    else:
        reason = "a lock that is held can be taken again"
    finally:
        with suppress(OSError):
            path.unlink()
    if works and is_shared(path):
        kind = network_file_system(place) or f"{VARIABLE}=1"
        return ok("locks", f"leases are kept at {place}, which other machines may see ({kind})")
    if works:
        return ok("locks", f"files can be locked at {place}")
    return fail(
        "locks",
        f"files cannot be locked at {place}: {reason}",
        "set RLEXP_RUNS to a folder on a local disk",
    )


def _existing(path: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(place for place in (path, *path.parents) if place.is_dir())


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
    """Say whether compute.device=cuda can work.

    Args:
        gpus: Names of the accelerators.
        torch: The version of torch, which says how it was built (`2.13.0+cpu`).
    """
    if not gpus:
        return ok("gpu", "none; compute.device=cpu")
    if torch.endswith("+cpu"):
        return warn(
            "gpu",
            f"{', '.join(gpus)}, but torch {torch} is built without CUDA",
            "install a build of torch with CUDA, or stay with compute.device=cpu",
        )
    return ok("gpu", f"{', '.join(gpus)}: compute.device=cuda")
