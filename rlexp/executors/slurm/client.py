"""Calls Slurm's commands (squeue, scontrol, scancel …) and parses their output."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rlexp.errors import ExecutorError

ANSWER_LIMIT = 90.0
"""Seconds after which a Slurm command counts as failed; a busy controller answers late."""
FILTERS = ("SQUEUE_", "SCANCEL_", "SCONTROL_", "SINFO_")
"""Prefixes of environment variables that change which jobs Slurm's commands show or end."""
KEPT = {"SLURM_CONF", "SLURM_CLUSTERS"}
"""Slurm variables that describe the cluster, and not the job in which the command runs."""
ACTIVE = {"RUNNING", "COMPLETING"}
ENDED = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE"}
UNSETTLED = {"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED"}
"""States after which Slurm may requeue a job within moments."""
DESCRIPTIONS = {
    "COMPLETED": "ended",
    "TIMEOUT": "reached its time limit (executor.time)",
    "DEADLINE": "reached its deadline",
    "CANCELLED": "was cancelled",
    "OUT_OF_MEMORY": "took more memory than executor.memory gives it, and was ended",
    "NODE_FAIL": "lost its node",
    "BOOT_FAIL": "lost its node, which did not start",
    "PREEMPTED": "had to make room for others",
}
UNKNOWN_JOB = "Invalid job id"
TASK = re.compile(r"(\d+)_(\d+|\[[^\]]*\])")


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job in Slurm's queue, and the reason for it."""

    state: str
    reason: str

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended; Slurm may still requeue it after an unsettled state."""
        return self.state in ENDED or self.state in UNSETTLED


def slurm_output(*command: str, variables: Mapping[str, str] | None = None) -> str:
    """The output of a Slurm command.

    Args:
        command: Program and arguments.
        variables: The environment of the program; by default that of this process.

    Raises:
        ExecutorError: The program is missing, takes too long or fails; with its error message.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith(FILTERS)}
    # By default, Slurm abbreviates long lists of array tasks with "…".
    environment["SLURM_BITSTR_LEN"] = "0"
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=ANSWER_LIMIT,
            env=environment if variables is None else variables,
            check=False,
            # Ctrl-C would reach the program, too, and break the query: this command handles it.
            start_new_session=True,
        )
    except OSError as error:
        raise ExecutorError(
            f"{command[0]} cannot be started: {error.strerror or error}; give this command where "
            "Slurm's commands are on PATH (a login node), or choose another executor"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ExecutorError(f"{command[0]} did not answer within {ANSWER_LIMIT:g} s") from error
    if result.returncode != 0:
        raise ExecutorError(f"{command[0]}: {error_lines(result.stderr, result.returncode)}")
    return result.stdout


def error_lines(text: str, code: int) -> str:
    """The error messages that a command printed, on one line."""
    lines = [re.sub(r"^(\w+: )?((error|fatal): )?", "", line.strip()) for line in text.split("\n")]
    messages = dict.fromkeys(line.rstrip(".") for line in lines if line)
    return "; ".join(messages) or f"it ended with code {code}"


def require_slurm() -> None:
    """Check that Slurm's commands are installed.

    Raises:
        ExecutorError: They are not on PATH.
    """
    if shutil.which("sbatch") is None:
        raise ExecutorError(
            "executor=slurm needs Slurm's commands, and sbatch is not on PATH: give this command "
            "on a login node of the cluster, or choose executor=local"
        )


def submission_variables(added: Mapping[str, str]) -> dict[str, str]:
    """The environment of a submission: this command's environment and `added`."""
    # Inside a Slurm job, SLURM_ variables of that job would become options of the new one.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k in KEPT}
    return {**kept, **added}


def array_limit() -> int:
    """The largest number of tasks in an array on this cluster.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    match = re.search(
        r"^MaxArraySize\s*=\s*(\d+)", slurm_output("scontrol", "show", "config"), re.MULTILINE
    )
    return max(1, int(match[1])) if match else 1000


def look(arrays: Iterable[str]) -> dict[str, JobState]:
    """The states of the jobs of arrays that Slurm still lists, by `array_task`.

    Raises:
        ExecutorError: Slurm cannot be reached, so that no state is known.
    """
    ids = ",".join(sorted(set(arrays)))
    command = ("squeue", "-h", "-r", "--states=all", "-o", "%i|%T|%r", f"--jobs={ids}")
    try:
        return parse_queue(slurm_output(*command))
    except ExecutorError as error:
        # Slurm forgets ended jobs after minutes, and then calls their ids invalid.
        if UNKNOWN_JOB in str(error):
            return {}
        raise


def parse_queue(text: str) -> dict[str, JobState]:
    """Parse lines of `id|state|reason`; an id may stand for many tasks: `12_[4-9,11%2]`."""
    states: dict[str, JobState] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        for task in expand(name):
            # A state may be followed by more, as in "CANCELLED by 1000".
            states[task] = JobState(state.split(" ")[0], reason)
    return states


def expand(name: str) -> Iterator[str]:
    """The ids of the single tasks that an id stands for; an id without tasks stands for itself."""
    match = TASK.fullmatch(name)
    if match is None:
        yield from [name] if name.isdigit() else []
        return
    for part in match[2].strip("[]").split("%")[0].split(","):
        bounds = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if bounds is None:
            continue
        first, last, step = int(bounds[1]), int(bounds[2] or bounds[1]), int(bounds[3] or 1)
        yield from (f"{match[1]}_{number}" for number in range(first, last + 1, max(step, 1)))


def find_arrays() -> dict[str, str]:
    """The array ids of this user's jobs, by the file names of their scripts.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    command = ("squeue", "-h", "-r", f"--user={os.getuid()}", "-o", "%F|%o")
    lines = (line.partition("|") for line in slurm_output(*command).splitlines())
    return {script.rpartition("/")[2]: array for array, _, script in lines}


def how_it_ended(task: str, state: JobState | None) -> str:
    """How a job ended, as text for a message."""
    if state is None:
        return f"Slurm no longer knows its job {task}"
    if state.state == "FAILED":
        return f"its Slurm job {task} failed{_code(task)}"
    return f"its Slurm job {task} {DESCRIPTIONS.get(state.state, f'is {state.state}')}"


def _code(task: str) -> str:
    try:
        text = slurm_output("scontrol", "show", "job", "-o", task)
    except ExecutorError:
        return ""
    match = re.search(r" ExitCode=(\d+):(\d+)", text)
    if match is None:
        return ""
    return f" by signal {match[2]}" if match[2] != "0" else f" with exit code {match[1]}"


def end(arrays: Iterable[str]) -> None:
    """End all jobs of arrays; jobs that have ended already are ignored.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    try:
        slurm_output("scancel", *arrays)
    except ExecutorError as error:
        if UNKNOWN_JOB not in str(error):
            raise
