"""`rlexp doctor`: checks the installation and the machine, one environment, or determinism."""

from collections.abc import Sequence
from dataclasses import asdict

from rlexp.app.checks.examination import examine
from rlexp.app.checks.finding import Finding, Status, any_failed
from rlexp.app.checks.installation import check_installation
from rlexp.app.checks.machine import check_machine
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.text import printable

REFUSED = 3
"""Exit code where a check failed."""


def doctor(
    environment: str | None,
    workspace: Workspace,
    console: Console,
    *,
    trained: Sequence[str] | None = None,
) -> int:
    """Check, and say what to do; returns 3 where a check failed, else 0.

    Args:
        environment: Only this one is checked.
        workspace: Where its yaml and its code are looked up.
        console: Shows what is found.
        trained: Only what these words lead to is checked: whether it trains to the same numbers
            each time.

    Raises:
        RlexpError: The environment's configuration is no valid one, or the words lead to none.
    """
    if trained is not None:
        from rlexp.app.checks.determinism import check_determinism

        findings = check_determinism(list(trained), workspace)
    elif environment is None:
        findings = [*check_installation(), *check_machine(workspace.folder, workspace.layout.root)]
    else:
        findings = examine(environment, workspace)
    rows = [asdict(finding) for finding in findings]
    console.show(rows, [line for finding in findings for line in _lines(finding)])
    if not console.as_json:
        console.line(_verdict(findings))
    return REFUSED if any_failed(findings) else 0


def _lines(finding: Finding) -> list[str]:
    lines = [f"{finding.status:<4}  {finding.check}: {printable(finding.detail, '')}"]
    return [*lines, f"      → {printable(finding.fix, '')}"] if finding.fix else lines


def _verdict(findings: Sequence[Finding]) -> str:
    counts = {status: sum(f.status is status for f in findings) for status in Status}
    if counts[Status.FAIL]:
        return f"{counts[Status.FAIL]} of {len(findings)} checks failed"
    if counts[Status.WARN]:
        return f"nothing failed; {counts[Status.WARN]} to know about"
    return "all is well"
