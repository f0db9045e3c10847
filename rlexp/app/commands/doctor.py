"""`rlexp doctor`: checks the installation and the machine, one environment, or determinism."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.diagnostics.environment import examine_environment
from rlexp.app.diagnostics.finding import Finding, any_failed
from rlexp.app.diagnostics.installation import check_installation
from rlexp.app.diagnostics.machine import check_machine
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings of checks.

    Attributes:
        findings: The finding of each check, in the order of the checks.
        failed: Whether any check failed.
    """

    schema: ClassVar[Schema] = Schema("diagnosis")

    findings: tuple[Finding, ...]
    failed: bool


def doctor(
    environment: str | None, workspace: Workspace, *, trained: Sequence[str] | None = None
) -> Diagnosis:
    """Check the installation and the machine, one environment, or determinism.

    Args:
        environment: Check only this environment.
        workspace: The workspace with the YAML file and the code of the environment.
        trained: Check only the determinism of this run or configuration: whether two trainings
            with equal seeds give the same numbers. A run's name, or overrides.

    Raises:
        RlexpError: The configuration is not valid, or there is no such run.
    """
    if trained is not None:
        from rlexp.app.diagnostics.determinism import check_determinism

        findings = check_determinism(list(trained), workspace)
    elif environment is None:
        findings = [*check_installation(), *check_machine(workspace.folder, workspace.layout.root)]
    else:
        findings = examine_environment(environment, workspace)
    return Diagnosis(findings=tuple(findings), failed=any_failed(findings))
