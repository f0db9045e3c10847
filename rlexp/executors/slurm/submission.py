"""Writes the script of an array of Slurm jobs beside the experiment, and submits the array."""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from rlexp.errors import ExecutorError, RefusedRequestError, did_you_mean
from rlexp.executors import Batch, Site
from rlexp.executors.slurm.client import find_arrays, slurm_output, submission_variables
from rlexp.executors.slurm.tasks import ArrayTask, write_batch

LESS = "lower executor.cpus, executor.memory or executor.gpus"
ADVICE = {
    "invalid account": "name yours with executor.account=…",
    "invalid qos": "name one that you may use with executor.qos=…",
    "violates accounting": "lower executor.jobs or executor.time, or name another executor.qos",
    "time limit": "lower executor.time; `sinfo -o '%P %l'` shows the limit of each partition",
    "node configuration": f"no node has that: {LESS}, or change executor.constraint",
    "than permitted": LESS,
    "generic resource": "ask for other executor.gpus; `sinfo -o '%P %G'` shows what there is",
    "invalid feature": "change executor.constraint; `sinfo -o '%P %f'` shows what there is",
    "submit": "lower executor.jobs, or raise executor.runs_per_job",
    "job array": "lower executor.jobs",
    "option": "change executor.options",
    "unable to contact": "give the same command again later",
    "timed out": "give the same command again later",
}
"""Advice for an error of sbatch, by a part of its message; the first match counts."""
UNANSWERED = ("unable to contact", "timed out", "did not answer", "connection", "communication")
"""Parts of errors of sbatch that Slurm's controller has not answered."""


def explained(error: ExecutorError, partition: str | None) -> ExecutorError:
    """The error of sbatch with advice what to do next."""
    message = str(error)
    if not message.startswith("sbatch"):
        return error
    kind = RefusedRequestError if _is_refusal(message) else ExecutorError
    if "invalid partition" in message.lower():
        return kind(f"{_without_repetition(message)}; {_partitions(partition)}")
    advice = next((text for part, text in ADVICE.items() if part in message.lower()), None)
    return kind(f"{message}; {advice}" if advice else message)


def _is_refusal(message: str) -> bool:
    """Whether sbatch has got an answer from Slurm, so that the same request fails again."""
    return message.startswith("sbatch:") and not any(p in message.lower() for p in UNANSWERED)


def _without_repetition(message: str) -> str:
    # Slurm reports an invalid partition twice, the second time without its name.
    return re.sub(r"; Batch job submission failed:.*", "", message)


def _partitions(partition: str | None) -> str:
    try:
        names = sorted(set(slurm_output("sinfo", "-h", "-o", "%R").split()))
    except ExecutorError:
        return "set executor.partition to one of those that `sinfo` shows"
    near = did_you_mean(partition or "", names)
    return f"partitions here: {', '.join(names)}{near}; set executor.partition"


HEAD = "#!/bin/bash"
PROLOGUE = r"""
key=${keys[${SLURM_ARRAY_TASK_ID:?it is unset: start this script with sbatch --array}]}
task=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
# One file holds what Slurm says of the task and what the worker says, where links can be made.
ln -- "$jobs/${array}_$SLURM_ARRAY_TASK_ID.txt" "$jobs/$key.txt" 2>/dev/null ||
  exec >>"$jobs/$key.txt" 2>&1
scontrol=$(command -v scontrol)
# `rlexp logs` finds the output of a run by this line: the file of the names goes with the job.
runs=$(cat "$jobs/$key.runs" 2>/dev/null)
echo "rlexp: job $task on ${SLURMD_NODENAME:-this machine} executes: ${runs//$'\n'/ }"

process= received= interrupted=
receive() {
  received=$1 interrupted=yes
  [ -z "$process" ] || [ -z "$2" ] || kill -s "$2" "$process" 2>/dev/null
}
# Slurm sends TERM to every process of a job that it ends: passed on, it would come twice.
trap 'receive TERM ""' TERM
# Before the time limit and at preemption, where Slurm is set so.
trap 'receive USR1 USR1' USR1
# rlexp asks it to end.
trap 'receive USR2 TERM' USR2

# What is the same after a try as before it came no step further.
reached() {
  while IFS= read -r run; do
    ls -d "$experiment/$run/checkpoints/"* "$experiment/$run/model.zip" 2>/dev/null
  done <"$jobs/$key.runs" | cksum
}

requeue() {
  local idle
  idle=$(cat "$jobs/$key.idle" 2>/dev/null)
  if [ "$(reached)" = "$before" ]; then idle=$((idle + 1)); else idle=0; fi
  if [ "$idle" -ge 3 ]; then
    echo "rlexp: not requeued, for three tries reached no new checkpoint: give the job more time"
    return
  fi
  echo "$idle" >"$jobs/$key.idle"
  "$scontrol" requeue "$task"
}

cd -- "$folder" || exit
"""
EPILOGUE = r"""
before=$(reached)
if [ -z "$received" ]; then
  "${worker[@]}" --job "$jobs/$key.runs" &
  process=$!
fi
code=143
interrupted=${process:+yes}
while [ -n "$interrupted" ]; do
  interrupted=
  wait "$process"
  code=$?
done
# Without a worker, or with one that had not begun to listen, nothing was lost.
if [ "$received" = USR1 ] && { [ -z "$process" ] || [ "$code" = 138 ]; }; then code=75; fi
if [ "$code" = 75 ] && [ -n "$requeues" ]; then requeue; fi
exit "$code"
"""


def job_script(
    site: Site,
    array: str,
    keys: Sequence[str],
    *,
    setup: Sequence[str],
    requeues: bool,
) -> str:
    """The bash script of an array.

    Args:
        site: Folders, command and environment of the workers.
        array: Name of the script without its ending.
        keys: Keys of the jobs, in the order of the array's tasks.
        setup: The user's lines before the worker; the first line that fails ends the job.
        requeues: Whether a worker may ask to be requeued.
    """
    variables = {
        "jobs": shlex.quote(str(site.jobs)),
        "experiment": shlex.quote(str(site.experiment)),
        "folder": shlex.quote(str(site.folder)),
        "array": shlex.quote(array),
        "requeues": "yes" if requeues else "",
        "keys": f"({shlex.join(keys)})",
        "worker": f"({shlex.join(site.worker)})",
    }
    assignments = [f"{name}={value}" for name, value in variables.items()]
    guarded = [f"{{\n{line}\n}} || exit" for line in setup]
    return "\n".join([HEAD, *assignments, PROLOGUE, *guarded, EPILOGUE])


LATE = ("timed out", "did not answer")
"""Parts of errors after which Slurm may have accepted the job nevertheless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionOptions:
    """Options of a submission.

    Attributes:
        options: Options of sbatch.
        partition: The partition that the user named, if any.
        setup: The user's lines before the worker.
        requeues: Whether a job may ask to be requeued.
    """

    options: tuple[str, ...]
    partition: str | None
    setup: tuple[str, ...]
    requeues: bool


def submit_array(
    site: Site, submission: SubmissionOptions, batches: Sequence[Batch]
) -> list[ArrayTask]:
    """Submit a job for each batch, as one array.

    Raises:
        ExecutorError: Slurm refuses the array; its files are removed.
    """
    name = f"array-{uuid4().hex[:12]}"
    script = site.jobs / f"{name}.sh"
    tasks = [ArrayTask(batch, name, index) for index, batch in enumerate(batches)]
    try:
        _write_files(script, site, submission, tasks)
        array = _ask_for(script, site, submission, len(tasks))
    except ExecutorError as error:
        with suppress(OSError):
            for task in tasks:
                task.forget(site.jobs)
            script.unlink(missing_ok=True)
        raise explained(error, submission.partition) from error
    for task in tasks:
        task.array = array
        # The jobs are submitted: without the id on disk, later commands find them by their script.
        with suppress(OSError):
            task.keep(site.jobs)
    return tasks


def _write_files(
    script: Path, site: Site, submission: SubmissionOptions, tasks: Sequence[ArrayTask]
) -> None:
    """Write the script, and the files of its jobs while they have no ids."""
    keys = [task.batch.key for task in tasks]
    text = job_script(
        site, script.stem, keys, setup=submission.setup, requeues=submission.requeues
    )
    try:
        site.jobs.mkdir(parents=True, exist_ok=True)
        for task in tasks:
            write_batch(site.jobs, task.batch)
            task.keep(site.jobs)
        script.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ExecutorError(f"cannot write {script}: {error.strerror or error}") from error


def _ask_for(script: Path, site: Site, submission: SubmissionOptions, count: int) -> str:
    """Submit the script as an array of `count` tasks; returns its id."""
    # Options on the command line override variables such as SBATCH_OUTPUT; #SBATCH lines do not.
    command = (
        *("sbatch", "--parsable", f"--array=0-{count - 1}"),
        f"--job-name=rlexp-{site.experiment.name}",
        f"--chdir={site.folder}",
        f"--output={output_pattern(script)}",
        *("--open-mode=append", "--export=ALL"),
        "--requeue" if submission.requeues else "--no-requeue",
        *submission.options,
        str(script),
    )
    try:
        output = slurm_output(*command, variables=submission_variables(site.variables))
    except ExecutorError as error:
        # Submitting again after a timeout could execute every run twice: look first.
        is_late = any(part in str(error) for part in LATE)
        array = _accepted_array(script) if is_late else None
        if array is None:
            raise
        return array
    # `--parsable` prints `id;cluster`, after lines that site plug-ins may print.
    return output.strip().rpartition("\n")[2].partition(";")[0]


def _accepted_array(script: Path) -> str | None:
    with suppress(ExecutorError):
        return find_arrays().get(script.name)
    return None


def output_pattern(script: Path) -> str:
    """The file for Slurm's output of each task: the script's name, `_` and the task's number."""
    path = str(script.with_suffix(""))
    # Slurm replaces no `%a` after a backslash: then only the worker's output is kept.
    return "/dev/null" if "\\" in path else path.replace("%", "%%") + "_%a.txt"
