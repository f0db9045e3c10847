"""What a check found, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check went: a warning costs nothing today, a failure does."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has shown.

    Attributes:
        status: How it went.
        check: The name of the check.
        detail: What it has shown.
        fix: What to do about it; empty where there is nothing to do.
    """

    status: Status
    check: str
    detail: str
    fix: str = ""


def ok(check: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(Status.OK, check, detail)


def warn(check: str, detail: str, fix: str) -> Finding:
    """Something to know, and what can be done about it."""
    return Finding(Status.WARN, check, detail, fix)


def fail(check: str, detail: str, fix: str) -> Finding:
    """Something that will break, and what to do about it."""
    return Finding(Status.FAIL, check, detail, fix)


def any_failed(findings: Iterable[Finding]) -> bool:
    """Whether a check failed."""
    return any(finding.status is Status.FAIL for finding in findings)
