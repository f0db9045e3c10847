"""The reproducibility checklist, filled in from the evidence."""

from rlexp.reports.sections import Inquiry


def failed_checks(inquiry: Inquiry) -> tuple[str, ...]:
    """What `--strict` refuses, a line each."""
    raise NotImplementedError
