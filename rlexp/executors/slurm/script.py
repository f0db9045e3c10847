"""The script of an array of Slurm jobs: each task starts a worker and hands signals on to it."""

import shlex
from collections.abc import Sequence

from rlexp.executors import Site

HEAD = "#!/bin/bash"
PROLOGUE = r"""
key=${keys[${SLURM_ARRAY_TASK_ID:?it is unset: start this script with sbatch --array}]}
task=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
# One file holds what Slurm says of the task and what the worker says, where links can be made.
ln -- "$jobs/${array}_$SLURM_ARRAY_TASK_ID.txt" "$jobs/$key.txt" 2>/dev/null ||
  exec >>"$jobs/$key.txt" 2>&1
scontrol=$(command -v scontrol)

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
    """A script for bash.

    Args:
        site: What the jobs work on.
        array: The script's own name, without its ending.
        keys: Of the jobs, in the order of the array's tasks.
        setup: Lines of the user's that come before the worker; the first that fails ends the job.
        requeues: Whether a worker that asks for it is queued again.
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
