"""Every generator that a training draws from, as plain values and arrays."""

import random
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm


def capture_generators(model: BaseAlgorithm) -> dict[str, Any]:
    """The states of Python's, NumPy's and torch's generators, and that of random actions."""
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "python": {
            "version": version,
            "numbers": np.asarray(numbers, dtype=np.uint32),
            "gauss": gauss,
        },
        "numpy": {
            "name": name,
            "keys": np.array(keys),
            "position": position,
            "has_gauss": has_gauss,
            "cached": cached,
        },
        "torch": torch.get_rng_state().numpy().copy(),
        "cuda": [state.cpu().numpy().copy() for state in _cuda_states()],
        "actions": model.action_space.np_random.bit_generator.state,
    }


def restore_generators(model: BaseAlgorithm, states: dict[str, Any]) -> None:
    """Put every generator where it was."""
    python, numpy = states["python"], states["numpy"]
    numbers = tuple(int(n) for n in python["numbers"])
    random.setstate((python["version"], numbers, python["gauss"]))
    np.random.set_state(  # noqa: NPY002
        (
            numpy["name"],
            numpy["keys"],
            numpy["position"],
            numpy["has_gauss"],
            numpy["cached"],
        )
    )
    torch.set_rng_state(torch.from_numpy(states["torch"]))
    if states["cuda"]:
        torch.cuda.set_rng_state_all([torch.from_numpy(state) for state in states["cuda"]])
    model.action_space.np_random.bit_generator.state = states["actions"]


def _cuda_states() -> list[torch.Tensor]:
    begun = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.get_rng_state_all() if begun else []
