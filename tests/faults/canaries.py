"""Payloads that leave a mark where something executes them, and places where they can hide."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(slots=True)
class Canaries:
    """Makes payloads; the folder gets an entry for each payload that is executed."""

    folder: Path
    count: int = field(default=0)

    def mark(self, what: str) -> Path:
        """The path at which a payload leaves its mark."""
        self.count += 1
        return self.folder / f"{self.count}-{what}"

    @property
    def executed(self) -> list[str]:
        """The names of the executed payloads."""
        return sorted(path.name for path in self.folder.iterdir())

    def pickled(self, what: str) -> bytes:
        """A pickle that makes a folder when it is loaded."""
        return pickle.dumps(Payload(str(self.mark(what))))

    def objects(self, what: str) -> bytes:
        """An npz file with an array of objects."""
        content = io.BytesIO()
        payload = np.array([Payload(str(self.mark(what)))], dtype=object)
        np.savez(content, allow_pickle=True, mean=payload, tree=payload, observations=payload)
        return content.getvalue()

    def torch_archive(self, what: str) -> bytes:
        """A file of torch whose pickle makes a folder when it is loaded."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("archive/data.pkl", self.pickled(what))
            archive.writestr("archive/version", "3\n")
        return content.getvalue()

    def encoded(self, what: str) -> dict[str, str]:
        """A payload in the form in which stable-baselines3 writes values that JSON cannot hold."""
        from base64 import b64encode

        return {":type:": "x", ":serialized:": b64encode(self.pickled(what)).decode()}

    def model(self, model: Path | io.BytesIO) -> bytes:
        """A saved learner with a payload in each of its members and in further members."""
        content = io.BytesIO()
        with zipfile.ZipFile(model) as before, zipfile.ZipFile(content, "w") as after:
            document = json.loads(before.read("data"))
            keys = ("policy_class", "learning_rate", "lr_schedule", "clip_range", "extra")
            document |= {key: self.encoded(f"data-{key}") for key in keys}
            after.writestr("data", json.dumps(document))
            after.writestr("pytorch_variables.pth", self.pickled("variables"))
            after.writestr("policy.pth", self.torch_archive("policy"))
            after.writestr("policy.optimizer.pth", self.torch_archive("optimizer"))
            after.writestr("extra.pth", self.pickled("extra"))
            after.writestr("replay_buffer.pkl", self.pickled("buffer"))
            after.writestr("../../escaped.pth", self.pickled("path"))
        return content.getvalue()


class Payload:
    """An object whose pickle makes a folder when it is loaded."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


def write_modules(folder: Path, canaries: Canaries, *names: str) -> None:
    """Write modules that leave a mark when they are imported."""
    for name in names:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import os\nos.mkdir({str(canaries.mark(name))!r})\n")


EVIL = "evil"
"""A module in the study's folder that the user did not allow."""


def hostile_parts(shell: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Hostile changes of a run's definition: the place that names code, and the changed parts.

    Args:
        shell: A shell command that leaves a mark.
    """
    call = {"_target_": "os.system", "_args_": [shell], "command": shell}
    for target in (
        *("os.system", "builtins.eval", "subprocess.Popen", "hydra.utils.get_method"),
        *("functools.partial", f"{EVIL}.Plug", "rlexp.algorithms.ppo.os.system"),
        *("rlexp.algorithms.library.import_module", "rlexp.agents.mlp.MLP"),
    ):
        yield f"algorithm {target}", {"algorithm": {"_target_": target, "command": shell}}
    yield "agent", {"agent": call}
    yield "environment", {"environment": call}
    yield "nested in the agent", {"agent": {"network": call}}
    yield "policy arguments", {"agent": {"policy_kwargs": {"features_extractor_class": call}}}
    yield "schedule", {"algorithm": {"learning_rate": call}}
    yield "noise", {"algorithm": {"action_noise": call}}
    yield "arguments", {"environment": {"arguments": {"reward": call}}}
    resolver = "${hydra:x}${oc.decode:${oc.env:HOME}}${oc.env:RLEXP_HOME}"
    yield "resolver", {"environment": {"arguments": {"x": resolver}}}
    yield "imports", {"environment": {"imports": [EVIL]}}
    yield "imports as text", {"environment": {"imports": EVIL}}
    yield "imports of rlexp", {"environment": {"imports": ["rlexp.__main__"]}}
    yield "module:Id", {"environment": {"id": f"{EVIL}:Odd-v0"}}
    wrapper = {"name": f"{EVIL}:Wrap", "arguments": {}}
    yield "wrapper", {"environment": {"wrappers": [wrapper]}}
    yield "wrapper of an import", {"environment": {"imports": [EVIL], "wrappers": [wrapper]}}
    converting = {
        "name": "gymnasium.wrappers.array_conversion:ArrayConversion",
        "arguments": {"env_xp": EVIL, "target_xp": EVIL},
    }
    yield (
        "wrapper that imports",
        {"environment": {"imports": ["gymnasium"], "wrappers": [converting]}},
    )
    recording = {
        "name": "RecordVideo",
        "arguments": {"video_folder": shell.rsplit(maxsplit=1)[-1]},
    }
    yield "wrapper that writes", {"environment": {"wrappers": [recording]}}
