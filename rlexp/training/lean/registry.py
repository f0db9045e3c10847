"""All shortcuts: what each leaves out, where it applies, and the versions it is proved with.

This module imports no library, so that `rlexp doctor` reads it at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

POLICY, PREDICTION = "policy", "prediction"
MODE, OPTIMISER, CLASSIC_CONTROL = "mode", "optimiser", "classic_control"
PPO_UPDATE = "ppo_update"

PROVED_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "gymnasium": ("1.4.0",),
    "numpy": ("2.4.6",),
    "stable-baselines3": ("2.9.2",),
    "torch": ("2.13.0",),
}
"""The versions of each package with which `make test-long` has shown equal numbers."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """One shortcut.

    Attributes:
        name: Its name in caches and in `rlexp doctor`.
        leaves_out: What the library does besides, and the shortcut does not.
        applies_to: Where the shortcut takes the place of the library's code.
        packages: The packages whose code it takes the place of.
    """

    name: str
    leaves_out: str
    applies_to: str
    packages: tuple[str, ...]


SHORTCUTS = (
    Shortcut(
        POLICY,
        "objects of distributions with their validation, calls of modules, and the records for "
        "gradients while experience is collected",
        "PPO and A2C with MlpPolicy, flat observations, and discrete or Gaussian actions without "
        "gSDE; SAC with MlpPolicy without gSDE",
        ("stable-baselines3", "torch"),
    ),
    Shortcut(
        PREDICTION,
        "checks of the observation's form, and objects of distributions",
        "batches of flat observations for MlpPolicy of PPO, A2C, DQN, SAC, TD3 and DDPG",
        ("stable-baselines3", "torch", "numpy"),
    ),
    Shortcut(
        MODE,
        "a walk over all modules at each change between training and evaluation mode",
        "policies whose modules compute the same in both modes",
        ("stable-baselines3", "torch"),
    ),
    Shortcut(
        OPTIMISER,
        "the loop over parameters in Python",
        "Adam and RMSprop on the CPU, with the settings that stable-baselines3 uses",
        ("torch",),
    ),
    Shortcut(
        PPO_UPDATE,
        "copies of batches through NumPy, records for gradients of what is only logged, and a walk "
        "over all modules to clip gradients",
        "PPO with MlpPolicy, flat observations, and discrete or Gaussian actions without gSDE",
        ("stable-baselines3", "torch", "numpy"),
    ),
    Shortcut(
        CLASSIC_CONTROL,
        "the steps of single environments, their wrappers, and copies of what they return",
        "CartPole, Pendulum, MountainCar and Acrobot without wrappers, components or rendering, "
        "in the process of the run",
        ("gymnasium", "numpy", "stable-baselines3"),
    ),
)


def unproved_packages(shortcut: Shortcut, installed: Mapping[str, str]) -> list[str]:
    """Name the packages of a shortcut, with versions, for which nothing has been proved.

    Args:
        shortcut: The shortcut.
        installed: The installed versions by name.
    """
    versions = {name: installed.get(name, "") for name in shortcut.packages}
    return [
        f"{name} {version}"
        for name, version in versions.items()
        # `2.13.0+cpu` is the build of 2.13.0 for the CPU.
        if version.partition("+")[0] not in PROVED_VERSIONS[name]
    ]
