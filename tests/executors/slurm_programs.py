"""Stand-ins for Slurm's commands, and a site of jobs in a folder with a hostile name."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import queued_worker

from rlexp.executors import Site
from rlexp.executors.slurm.submission import job_script

HOSTILE = 'it\'s "$HOME" `id` é 100%j; & \\ new\nline'


def install(folder: Path, **programs: str) -> str:
    """Write shell programs into a folder; returns a PATH on which they come first."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def site(folder: Path, seconds: float = 0.0) -> Site:
    """An experiment whose runs take `seconds` seconds each."""
    experiment = folder / "runs" / "study"
    (experiment / "jobs").mkdir(parents=True, exist_ok=True)
    worker = (sys.executable, queued_worker.__file__, str(experiment), str(seconds))
    return Site(
        experiment=experiment,
        jobs=experiment / "jobs",
        folder=folder,
        worker=worker,
        variables={"RLEXP_TOLD": "a secret"},
        threads=3,
    )


def start_task(
    job_site: Site,
    path: str,
    *,
    run: str = "run1",
    setup: tuple[str, ...] = (),
    requeues: bool = True,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the second task of an array of two, as Slurm would."""
    script = job_site.jobs / "array-x.sh"
    text = job_script(job_site, "array-x", ["other", "own"], setup=setup, requeues=requeues)
    script.write_text(text)
    (job_site.jobs / "own.runs").write_text(f"{run}\n")
    (job_site.jobs / "other.runs").write_text("others\n")
    with (job_site.jobs / "array-x_1.txt").open("ab") as output:
        return subprocess.Popen(
            ["/bin/bash", str(script)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "PATH": path,
                "SLURM_ARRAY_JOB_ID": "12",
                "SLURM_ARRAY_TASK_ID": "1",
                "RLEXP_LINGERS": "0.15",
                **(variables or {}),
            },
        )
