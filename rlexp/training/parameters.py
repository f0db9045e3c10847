"""Parameters of a learner: loading without pickle, checks for NaN, and their digest."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file, recursive_getattr


def tensors(model: BaseAlgorithm) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters and buffers of the policy, then other tensors that the learner adapts.

    The latter are variables such as `log_ent_coef` of SAC, which `state_dict` leaves out.
    """
    # Sorted, so that the digest does not depend on the order in which modules were made.
    yield from sorted(model.policy.state_dict().items())
    for name in sorted(model._get_torch_save_params()[1]):  # noqa: SLF001
        value: Any = model
        for part in name.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            yield name, value


JOINED_UP_TO = 100_000
"""Numbers that are copied into one array for a check; a copy of more takes longer than many sums."""


def all_finite(model: BaseAlgorithm) -> bool:
    """Whether every parameter is finite."""
    # Each time anew: a learner may replace the object of a parameter.
    floats = [tensor for _, tensor in tensors(model) if tensor.is_floating_point()]
    if not floats:
        return True
    # A sum is NaN or infinite if any entry is, and one stacked test costs a single device sync.
    with torch.no_grad():
        small = sum(tensor.numel() for tensor in floats) <= JOINED_UP_TO
        if small and all(tensor.device.type == "cpu" for tensor in floats):
            sums = torch.cat([tensor.reshape(-1) for tensor in floats]).sum()
        else:
            sums = torch.stack([tensor.sum() for tensor in floats])
        return bool(torch.isfinite(sums).all())


def diverged_loss(values: Mapping[str, Any]) -> str | None:
    """Return the name of a logged loss that is NaN or infinite, or None."""
    for name, value in values.items():
        if "loss" in name and isinstance(value, float) and value - value != 0:  # NaN or inf
            return name
    return None


def weights_digest(model: BaseAlgorithm) -> str:
    """The sha256 of all parameters with their names, types and shapes."""
    total = sha256()
    for name, tensor in tensors(model):
        array = tensor.detach().cpu().contiguous().numpy()
        total.update(f"{name}:{array.dtype}:{array.shape}:".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def load_parameters(learner: BaseAlgorithm, model: Path | IO[bytes]) -> None:
    """Load parameters, optimisers, and the variables that `set_parameters` leaves out.

    Raises:
        Exception: The file is damaged or does not fit; the types are those of the library.
    """
    # Not `set_parameters(path)`: the override of ARS unpickles the file.
    _, parameters, variables = load_from_zip_file(
        model,  # type: ignore[arg-type]
        device=learner.device,
        load_data=False,
    )
    learner.set_parameters(parameters, exact_match=True)
    for name in learner._get_torch_save_params()[1]:  # noqa: SLF001
        variable = recursive_getattr(learner, name)
        variable.data = _like(variable, (variables or {})[name], name)
    if hasattr(learner, "exploration_rate"):
        learner.exploration_rate = _exploration_rate(model)
    if getattr(learner, "use_sde", False):
        # The present noise was drawn with the standard deviation of the untrained policy.
        noise: Any = getattr(learner, "actor", None) or learner.policy
        noise.reset_noise()


def _like(variable: torch.Tensor, saved: torch.Tensor, name: str) -> torch.Tensor:
    if saved.shape != variable.shape:
        raise ValueError(f"{name} has shape {tuple(saved.shape)}")
    return saved.detach().to(variable)


def _exploration_rate(model: Path | IO[bytes]) -> float:
    """Read the probability of random actions from the JSON in a saved file."""
    with zipfile.ZipFile(model) as archive:
        rate = json.loads(archive.read("data"))["exploration_rate"]
    return float(rate)
