"""The process of one probe: builds a learner once, measures it, and writes what it measured.

The process is forked from a server like a run, and dies with the command. It writes into a
temporary folder only, never into `runs/`.
"""

import json
from pathlib import Path
from typing import Any

from rlexp.app.execution.probes import REQUEST, RESULT
from rlexp.app.execution.run_process import assemble
from rlexp.protocol.spec import RunSpec
from rlexp.training.probe import as_document, probe


def execute(arguments: list[str]) -> int:
    """Measure one run; `arguments` is the folder of the probe."""
    folder = Path(arguments[0])
    document = _measure(folder)
    temporary = folder / f".{RESULT}"
    temporary.write_text(json.dumps(document))
    temporary.replace(folder / RESULT)
    return 0


def _measure(folder: Path) -> dict[str, Any]:
    """The measurements, or the error and whether the learner was built before it."""
    request = json.loads((folder / REQUEST).read_text())
    built: list[bool] = []
    try:
        training = assemble(RunSpec.from_plain(request["spec"]), allowed=tuple(request["allowed"]))
        return dict(as_document(probe(training, folder, lambda: built.append(True))))
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return {"error": name_error(error), "built": bool(built)}


def name_error(error: BaseException) -> str:
    """An error on one line, with its kind unless rlexp raised it."""
    from rlexp.errors import RlexpError

    text = str(error) if isinstance(error, RlexpError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
