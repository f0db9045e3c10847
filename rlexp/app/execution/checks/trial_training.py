"""The training of a configuration that no run executes, with which checks try what trainings begin with."""

from rlexp.app.execution.checks.compatibility import build_parts
from rlexp.app.workspace import Workspace
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.training.parts import Training


def training_of(configuration: Configuration, workspace: Workspace) -> Training:
    """Return the training of a configuration, without its callbacks and its replay.

    Args:
        configuration: The configuration.
        workspace: The workspace, with the packages that may be imported.

    Raises:
        ConfigError: A plug-in cannot be built.
    """
    parts = build_parts(configuration, workspace)
    return Training(
        agent=parts.agent,
        algorithm=parts.algorithm,
        environment=parts.environment,
        budget=configuration.budget,
        compute=configuration.compute,
        streams=configuration.spec(Phase.TUNING, 0, 0).streams,
    )
