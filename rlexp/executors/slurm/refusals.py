"""What to do about it when Slurm takes no job."""

import re

from rlexp.errors import ExecutorError, did_you_mean
from rlexp.executors.slurm.queue import ask

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
"""What to do about an error, by words in it; the first that is found counts."""


def explained(error: ExecutorError, partition: str | None) -> ExecutorError:
    """The same error with what to do next."""
    told = str(error)
    if not told.startswith("sbatch"):
        return error
    if "invalid partition" in told.lower():
        return ExecutorError(f"{_first(told)}; {_partitions(partition)}")
    for words, advice in ADVICE.items():
        if words in told.lower():
            return ExecutorError(f"{told}; {advice}")
    return error


def _first(told: str) -> str:
    """Slurm says the same of a partition twice, the second time without its name."""
    return re.sub(r"; Batch job submission failed:.*", "", told)


def _partitions(partition: str | None) -> str:
    try:
        names = sorted(set(ask("sinfo", "-h", "-o", "%R").split()))
    except ExecutorError:
        return "set executor.partition to one of those that `sinfo` shows"
    near = did_you_mean(partition or "", names)
    return f"partitions here: {', '.join(names)}{near}; set executor.partition"
