"""Checks the user's options for sbatch, and refuses those that rlexp sets itself."""

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
"""Options of sbatch that have a setting, with the name of the setting."""
RESERVED = (
    *("array", "batch", "chdir", "clusters", "error", "export", "export-file", "get-user-env"),
    *("help", "input", "job-name", "nodes", "ntasks", "open-mode", "output", "parsable"),
    *("test-only", "usage", "version", "wait", "wrap"),
)
"""Options of sbatch that rlexp sets itself, because job and command depend on them."""
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
        ConfigError: The text is not in a format of Slurm.
    """
    for pattern in TIMES:
        if match := pattern.fullmatch(str(limit)):
            parts = {unit: int(number or 0) for unit, number in match.groupdict().items()}
            return sum(MINUTES[unit] * number for unit, number in parts.items())
    raise ConfigError(
        f"executor.time={limit!r} is no time limit: use minutes, hours:minutes:seconds or "
        "days-hours:minutes:seconds"
    )


def checked_word(name: str, value: str | None) -> None:
    """Refuse a setting that is empty or holds spaces.

    Raises:
        ConfigError: The value is empty, or holds spaces or unprintable characters.
    """
    if value is not None and (not value or any(c.isspace() or not c.isprintable() for c in value)):
        raise ConfigError(f"executor.{name}={value!r} must be one word; null: the cluster's own")


def checked_options(options: Sequence[str]) -> None:
    """Refuse malformed options, options that have a setting, and options that rlexp sets.

    Raises:
        ConfigError: Names the first such option.
    """
    for option in options:
        match = OPTION.fullmatch(option)
        if match is None or not option.isprintable():
            raise ConfigError(f"executor.options: {option!r} is no option: write --name=value")
        _check_name(option, match[1])


def _check_name(given: str, name: str) -> None:
    # By prefix: sbatch accepts an abbreviated option, such as `--part` for `--partition`.
    setting = next((key for option, key in SETTINGS.items() if option.startswith(name)), None)
    if setting is not None:
        raise ConfigError(f"executor.options: {given!r}: use executor.{setting} instead")
    if any(option.startswith(name) for option in RESERVED):
        raise ConfigError(
            f"executor.options: rlexp sets {given!r} itself: leave it out (other options, such as "
            "--mail-type=END, are allowed)"
        )
