"""The import of PyTorch's compiler is put off, and training does not change."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TRAIN = """
import hashlib, json, sys
from rlexp.training.deferred_dynamo import DeferredDynamo, defer

if sys.argv[1] == "defer":
    defer()
import stable_baselines3, torch

def weights(learner):
    values = learner.policy.state_dict().values()
    return hashlib.sha256(b"".join(v.numpy().tobytes() for v in values)).hexdigest()

digests = []
for kind, task, settings in (
    (stable_baselines3.A2C, "CartPole-v1", {}),
    (stable_baselines3.SAC, "Pendulum-v1", {"learning_starts": 20}),
):
    learner = kind("MlpPolicy", task, seed=3, **settings).learn(64)
    learner.save(sys.argv[2])
    kind.load(sys.argv[2])
    digests.append(weights(learner))
before = type(sys.modules["torch._dynamo"]).__name__
compiled = torch._dynamo.optimize("eager")(lambda x: 2 * x + 1)(torch.ones(2)).tolist()
learner.learn(40)
zero_grad = torch.optim.Optimizer.zero_grad.__wrapped__
print(json.dumps({
    "weights": digests,
    "before": before,
    "compiled": compiled,
    "after": isinstance(torch._dynamo, DeferredDynamo),
    "later": weights(learner),
    "disabled": zero_grad.__dict__["__dynamo_disable"] is not zero_grad,
}))
"""


def test_training_is_the_same_without_the_compiler_which_is_imported_when_it_is_used(
    tmp_path: Path,
) -> None:
    """Weights are equal with and without the import, and a compilation gets the real module."""
    deferred, usual = (_trained(word, tmp_path / word) for word in ("defer", "import"))
    assert deferred.pop("before") == "DeferredDynamo"
    assert usual.pop("before") == "module"
    assert deferred == usual
    assert usual["compiled"] == [3.0, 3.0]
    assert not usual["after"]
    assert usual["disabled"]


def _trained(word: str, path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, word, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document
