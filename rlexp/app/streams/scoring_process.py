"""The process that scores policies: it imports the trusted checkout, and no code of a candidate.

Parameters are read from the files of a policy without unpickling anything.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.app.execution.run_process import assemble, check_plug_ins
from rlexp.app.workspace import Workspace
from rlexp.errors import RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import to_plain
from rlexp.store.layout import Layout, RunPaths


def main(arguments: Sequence[str]) -> int:
    """Score the policies that the first file names, and answer in the second one; both are JSON."""
    question = json.loads(Path(arguments[0]).read_text())
    folder = Path(question["folder"])
    workspace = Workspace(folder, Layout(folder / "runs"))
    workspace.make_importable()
    scores = {each["id"]: _score(each, question) for each in question["policies"]}
    Path(arguments[1]).write_text(json.dumps({"scores": scores}))
    return 0


def _score(policy: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    """The final evaluation of a policy, or why there is none."""
    try:
        return {"evaluation": _evaluation(policy, question), "problem": None}
    except (Exception, SystemExit) as error:  # noqa: BLE001
        kind = "" if isinstance(error, RlexpError) else f"{type(error).__name__}: "
        return {"evaluation": None, "problem": " ".join(f"{kind}{error}".split())}


def _evaluation(policy: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any] | None:
    """The final evaluation of a policy; None where its learner is only to be built."""
    from rlexp.training.policy_score import score_policy
    from rlexp.training.restore import fresh_learner, restore_policy

    spec = RunSpec.from_plain(policy["spec"])
    if spec.id != policy["id"]:
        raise ValueError("the specification of the run has another identity")
    training = assemble(spec, allowed=tuple(question["allowed"]), lean=bool(question["lean"]))
    check_plug_ins(spec, training)
    if policy["files"] is None:
        fresh_learner(training)
        return None
    files = RunPaths(Path(policy["files"]))
    model = restore_policy(training, files.model, files.normalisation, weights=None)
    return to_plain(score_policy(training, model))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
