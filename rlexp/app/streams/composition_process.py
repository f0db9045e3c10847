"""The process that composes the configuration of a candidate with the candidate's own code.

Its answer says what to train, and is compared with what the stream has frozen. It never scores.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlexp.app.execution.checks.import_permission import foreign_modules
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.streams.protected_files import files_of
from rlexp.app.workspace import Workspace
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical
from rlexp.store.layout import Layout


def main(arguments: Sequence[str]) -> int:
    """Compose the words in the first file, and answer in the second one; both are JSON."""
    question = json.loads(Path(arguments[0]).read_text())
    try:
        content = _composed(question)
    except RlexpError as error:
        content = {"error": {"message": str(error), "code": error.code, "key": error.key}}
    Path(arguments[1]).write_text(json.dumps(content))
    return 0


def _composed(question: Mapping[str, Any]) -> dict[str, Any]:
    folder = Path(question["folder"])
    workspace = Workspace(folder, Layout(Path(question["runs"])), tuple(question["allowed"]))
    request = read_request([*question["words"], "phase=tuning"], workspace)
    return {
        "configurations": [c.plain() for c in request.experiment.configurations],
        "seeds": asdict(request.experiment.seeds),
        "failures": request.experiment.failures,
        "operational": request.operational,
        "modules": sorted(_modules(request, folder)),
        "starts_from": bool(request.policies or request.sourced),
    }


def _modules(request: RunRequest, folder: Path) -> Iterator[str]:
    """The modules in the folder that the environments are made of."""
    names = set[str]()
    for configuration in request.experiment.configurations:
        names |= set(foreign_modules(_EnvironmentOnly(configuration)))
        # A registered id does not name its module: the classes of a made environment do.
        with suppress(Exception):
            names |= set(_classes_of(request.parts[configuration.fingerprint].environment.make()))
    yield from (name for name in names if any(files_of(folder, name)))


def _classes_of(environment: Any) -> Iterator[str]:
    """The modules of an environment and of its wrappers."""
    layer = environment
    while layer is not None:
        yield type(layer).__module__
        layer = vars(layer).get("env")
    environment.close()


class _EnvironmentOnly:
    """The environment and the replay of a configuration, whose other plug-ins candidates may change."""

    def __init__(self, configuration: Configuration) -> None:
        self.agent: Mapping[str, Any] = {}
        self.algorithm: Mapping[str, Any] = {}
        self.environment = json.loads(canonical(configuration.environment))
        # No candidate may change the replay or the dataset either.
        self.replay = configuration.replay
        self.dataset = configuration.dataset


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
