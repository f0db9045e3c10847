"""The training of a configuration that no run executes, with which checks try what trainings begin with."""

from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
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
    environment = {**configuration.environment, "reference": {}}
    return Training(
        agent=build(configuration.agent, "agent", workspace.allowed),
        algorithm=build(configuration.algorithm, "algorithm", workspace.allowed),
        environment=build(environment, "environment", workspace.allowed),
        budget=configuration.budget,
        compute=configuration.compute,
        streams=configuration.spec(Phase.TUNING, 0, 0).streams,
    )
