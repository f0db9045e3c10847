"""The result of a check: its status, what it showed, and how to fix it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class FindingStatus(StrEnum):
    """The status of a check; a failed check means that runs will fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        status: The status of the check.
        check: The name of the check.
        detail: What the check has shown.
        fix: What to do; empty where nothing is to be done.
    """

    status: FindingStatus
    check: str
    detail: str
    fix: str = ""


def ok(check: str, detail: str) -> Finding:
    """A finding that needs no action."""
    return Finding(FindingStatus.OK, check, detail)


def warn(check: str, detail: str, fix: str) -> Finding:
    """A finding that the user should know, with a possible action."""
    return Finding(FindingStatus.WARN, check, detail, fix)


def fail(check: str, detail: str, fix: str) -> Finding:
    """A finding that will break runs, with the action that prevents it."""
    return Finding(FindingStatus.FAIL, check, detail, fix)


def any_failed(findings: Iterable[Finding]) -> bool:
    """Whether a check failed."""
    return any(finding.status is FindingStatus.FAIL for finding in findings)
