"""Parameters of a learner, read from a saved file; nothing is ever unpickled."""

import json
import zipfile
from pathlib import Path
from typing import IO, Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file, recursive_getattr


def fill(learner: BaseAlgorithm, model: Path | IO[bytes]) -> None:
    """Load parameters and optimisers, and what `set_parameters` leaves out.

    Raises:
        Exception: The file is damaged or does not fit; the library's own kinds.
    """
    # Not `set_parameters(path)`: ARS overrides it with one that unpickles.
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
        # The noise was drawn from the untrained standard deviation.
        noise: Any = getattr(learner, "actor", None) or learner.policy
        noise.reset_noise()


def _like(variable: torch.Tensor, saved: torch.Tensor, name: str) -> torch.Tensor:
    if saved.shape != variable.shape:
        raise ValueError(f"{name} has shape {tuple(saved.shape)}")
    return saved.detach().to(variable)


def _exploration_rate(model: Path | IO[bytes]) -> float:
    """Read the rate at which the learner acted at random, from the JSON in the file."""
    with zipfile.ZipFile(model) as archive:
        rate = json.loads(archive.read("data"))["exploration_rate"]
    return float(rate)
