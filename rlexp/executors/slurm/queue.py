"""Slurm's own commands: what is asked of them, and what their answers mean."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rlexp.errors import ExecutorError

ANSWER_LIMIT = 90.0
"""Seconds until a command of Slurm's counts as failed; a busy one takes its time."""
FILTERS = ("SQUEUE_", "SCANCEL_", "SCONTROL_", "SINFO_")
"""Variables that change which jobs these commands show or touch."""
KEPT = {"SLURM_CONF", "SLURM_CLUSTERS"}
"""Variables of Slurm's that are not those of the job in which a command is given."""
ACTIVE = {"RUNNING", "COMPLETING"}
ENDED = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE"}
UNSETTLED = {"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED"}
"""States that end a job unless it is queued again within moments."""
WORDS = {
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
class Seen:
    """What Slurm shows of a job: its state and the reason for it."""

    state: str
    reason: str

    @property
    def has_ended(self) -> bool:
        """Whether it is over, for good as far as this look can tell."""
        return self.state in ENDED or self.state in UNSETTLED


def ask(*words: str, variables: Mapping[str, str] | None = None) -> str:
    """What a command of Slurm's prints.

    Args:
        words: The command.
        variables: Its environment, in place of this command's own.

    Raises:
        ExecutorError: There is no such program, it takes too long, or says no: its own words.
    """
    own = {k: v for k, v in os.environ.items() if not k.startswith(FILTERS)}
    # Lists of array tasks would be cut short.
    own["SLURM_BITSTR_LEN"] = "0"
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=ANSWER_LIMIT,
            env=own if variables is None else variables,
            check=False,
            # Ctrl-C is for this command to handle.
            start_new_session=True,
        )
    except OSError as error:
        raise ExecutorError(
            f"{words[0]} cannot be started: {error.strerror or error}; give this command where "
            "Slurm's commands are on PATH (a login node), or choose another executor"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ExecutorError(f"{words[0]} did not answer within {ANSWER_LIMIT:g} s") from error
    if done.returncode != 0:
        raise ExecutorError(f"{words[0]}: {complaint(done.stderr, done.returncode)}")
    return done.stdout


def complaint(text: str, code: int) -> str:
    """The errors that a command printed, in one line."""
    lines = [re.sub(r"^(\w+: )?((error|fatal): )?", "", line.strip()) for line in text.split("\n")]
    told = dict.fromkeys(line.rstrip(".") for line in lines if line)
    return "; ".join(told) or f"it ended with code {code}"


def require_slurm() -> None:
    """See that Slurm's commands are there.

    Raises:
        ExecutorError: They are not.
    """
    if shutil.which("sbatch") is None:
        raise ExecutorError(
            "executor=slurm needs Slurm's commands, and sbatch is not on PATH: give this command "
            "on a login node of the cluster, or choose executor=local"
        )


def submission_variables(added: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job: that of this command, less what tells of a job it is given in."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k in KEPT}
    return {**own, **added}


def array_limit() -> int:
    """How many tasks an array may have here.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    found = re.search(
        r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config"), re.MULTILINE
    )
    return max(1, int(found[1])) if found else 1000


def look(arrays: Iterable[str]) -> dict[str, Seen]:
    """The jobs of some arrays that Slurm still knows, by `array_task`.

    Raises:
        ExecutorError: Slurm cannot be reached: nothing is known of any.
    """
    listed = ",".join(sorted(set(arrays)))
    words = ("squeue", "-h", "-r", "--states=all", "-o", "%i|%T|%r", f"--jobs={listed}")
    try:
        return parse_queue(ask(*words))
    except ExecutorError as error:
        if UNKNOWN_JOB in str(error):
            return {}
        raise


def parse_queue(text: str) -> dict[str, Seen]:
    """Read lines of `id|state|reason`; an id may stand for many tasks: `12_[4-9,11%2]`."""
    seen: dict[str, Seen] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        for task in expand(name):
            seen[task] = Seen(state.split(" ")[0], reason)
    return seen


def expand(name: str) -> Iterator[str]:
    """The single tasks that an id stands for; an id without tasks is its own."""
    found = TASK.fullmatch(name)
    if found is None:
        yield from [name] if name.isdigit() else []
        return
    for part in found[2].strip("[]").split("%")[0].split(","):
        bounds = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if bounds is None:
            continue
        first, last, step = int(bounds[1]), int(bounds[2] or bounds[1]), int(bounds[3] or 1)
        yield from (f"{found[1]}_{number}" for number in range(first, last + 1, max(step, 1)))


def find_arrays() -> dict[str, str]:
    """The arrays of this user's jobs by the file names of their scripts.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    words = ("squeue", "-h", "-r", f"--user={os.getuid()}", "-o", "%F|%o")
    lines = (line.partition("|") for line in ask(*words).splitlines())
    return {script.rpartition("/")[2]: array for array, _, script in lines}


def how_it_ended(task: str, seen: Seen | None) -> str:
    """In words, what became of a job."""
    if seen is None:
        return f"Slurm no longer knows its job {task}"
    if seen.state == "FAILED":
        return f"its Slurm job {task} failed{_code(task)}"
    return f"its Slurm job {task} {WORDS.get(seen.state, f'is {seen.state}')}"


def _code(task: str) -> str:
    try:
        text = ask("scontrol", "show", "job", "-o", task)
    except ExecutorError:
        return ""
    found = re.search(r" ExitCode=(\d+):(\d+)", text)
    if found is None:
        return ""
    return f" by signal {found[2]}" if found[2] != "0" else f" with exit code {found[1]}"


def end(arrays: Iterable[str]) -> None:
    """End all jobs of some arrays; that some are over is no error.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    try:
        ask("scancel", *arrays)
    except ExecutorError as error:
        if UNKNOWN_JOB not in str(error):
            raise
