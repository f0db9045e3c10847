"""Words for sbatch that a user may give, and those that would break what rlexp relies on."""

import re
from collections.abc import Sequence

from rlexp.errors import ConfigError

SETTINGS = {
    "account": "account",
    "constraint": "constraint",
    "cpus-per-task": "cpus",
    "exclude": "exclude",
    "gpus": "gpus",
    "gres": "gpus",
    "mem": "memory",
    "no-requeue": "requeue",
    "partition": "partition",
    "qos": "qos",
    "requeue": "requeue",
    "signal": "signal_before",
    "time": "time",
}
"""Options of sbatch that are settings, and the settings' names."""
OURS = (
    *("array", "batch", "chdir", "clusters", "error", "export", "export-file", "get-user-env"),
    *("help", "input", "job-name", "nodes", "ntasks", "open-mode", "output", "parsable"),
    *("test-only", "usage", "version", "wait", "wrap"),
)
"""Options of sbatch on which the protocol between a job and its command rests."""
OPTION = re.compile(r"--([a-z][a-z0-9_-]*)(=.*)?", re.DOTALL)
DAYS = r"(?P<days>\d+)-(?P<hours>\d+)(:(?P<minutes>\d+)(:(?P<seconds>\d+))?)?"
TIMES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"(?P<minutes>\d+)(:(?P<seconds>\d+))?",
        r"(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)",
        DAYS,
    )
)
MINUTES = {"days": 1440.0, "hours": 60.0, "minutes": 1.0, "seconds": 1 / 60}


def minutes(limit: int | str) -> float:
    """A time limit in minutes.

    Raises:
        ConfigError: Slurm writes none so.
    """
    for pattern in TIMES:
        if found := pattern.fullmatch(str(limit)):
            parts = {unit: int(number or 0) for unit, number in found.groupdict().items()}
            return sum(MINUTES[unit] * number for unit, number in parts.items())
    raise ConfigError(
        f"executor.time={limit!r} is no time limit: use minutes, hours:minutes:seconds or "
        "days-hours:minutes:seconds"
    )


def checked_word(name: str, value: str | None) -> None:
    """Refuse a setting that is not one word.

    Raises:
        ConfigError: It is empty or holds blanks.
    """
    if value is not None and (not value or any(c.isspace() or not c.isprintable() for c in value)):
        raise ConfigError(f"executor.{name}={value!r} must be one word; null: the cluster's own")


def checked_options(options: Sequence[str]) -> None:
    """Refuse words for sbatch that are none, that a setting is for, or that break the protocol.

    Raises:
        ConfigError: Names the first of them.
    """
    for word in options:
        found = OPTION.fullmatch(word)
        if found is None or not word.isprintable():
            raise ConfigError(f"executor.options: {word!r} is no option: write --name=value")
        _check_name(word, found[1])


def _check_name(word: str, name: str) -> None:
    # sbatch takes any beginning of an option's name for the option.
    setting = next((own for option, own in SETTINGS.items() if option.startswith(name)), None)
    if setting is not None:
        raise ConfigError(f"executor.options: {word!r}: use executor.{setting} instead")
    if any(option.startswith(name) for option in OURS):
        raise ConfigError(
            f"executor.options: {word!r} is rlexp's own to choose: leave it out (others, like "
            "--mail-type=END, may stand there)"
        )
