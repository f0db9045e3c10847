"""Records a video of an episode, with or without a display."""

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.environments import Environment, Stage
from rlexp.environments.composed import Around, at_stage
from rlexp.errors import ConfigError
from rlexp.training.evaluate import Episodes, Evaluator
from rlexp.training.video_file import DEFAULT_RATE, Frame, open_video


class Camera(gym.Wrapper[Any, Any, Any, Any]):
    """Passes every frame of the first episode to a function."""

    def __init__(self, env: gym.Env[Any, Any], show: Callable[[Frame], object]) -> None:
        super().__init__(env)
        self._show = show
        self._over = False

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and pass on the first frame."""
        result = self.env.reset(**settings)
        self._shoot()
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and pass on the frame."""
        result = self.env.step(action)
        self._shoot()
        self._over |= bool(result[2] or result[3])
        return result

    def _shoot(self) -> None:
        if not self._over:
            self._show(_checked(self.env.render()))


@dataclass(frozen=True, slots=True)
class WithCamera(Around):
    """A task whose environments have a camera."""

    show: Callable[[Frame], object]

    def make(
        self,
        render: str | None = None,
        inner: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
    ) -> gym.Env[Any, Any]:
        """Return one fresh environment with a camera."""
        return Camera(self.environment.make(render, inner), self.show)


def without_display() -> None:
    """Configure rendering without a screen; call it before the rendering libraries are imported."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    # OSMesa renders on the CPU and is slow, so it is only used without EGL.
    library = "egl" if find_library("EGL") or not find_library("OSMesa") else "osmesa"
    os.environ.setdefault("MUJOCO_GL", library)
    os.environ.setdefault("PYOPENGL_PLATFORM", library)


def record_video(
    environment: Environment,
    model: BaseAlgorithm,
    path: Path,
    *,
    seed: int,
    sampling: int,
    deterministic: bool,
) -> Episodes:
    """Play one episode and record its video; returns the episode.

    Raises:
        ConfigError: The environment cannot be rendered here; the message says why.
    """
    try:
        with closing(open_video(path)) as movie, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recorded = WithCamera(at_stage(environment, Stage.EVALUATION), movie.add)
            evaluator = Evaluator(recorded, 1, render="rgb_array")
            with closing(evaluator):
                # Known only once the environment exists; set before the first frame.
                movie.rate = _rate(evaluator)
                return evaluator.evaluate(
                    model,
                    seeds=[seed],
                    sampling=sampling,
                    episodes=1,
                    deterministic=deterministic,
                    beat=lambda: None,
                )
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(":") or type(error).__name__
        raise ConfigError(
            f"no video of {environment.task} can be recorded here: {reason}; run the command "
            "without --video"
        ) from error


def _rate(evaluator: Evaluator) -> float:
    metadata = evaluator.vector.get_attr("metadata")[0] or {}
    rate = metadata.get("render_fps")
    return float(rate) if isinstance(rate, int | float) and rate > 0 else DEFAULT_RATE


def _checked(frame: Any) -> Frame:
    image = np.asarray(frame)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ConfigError("its render() returns no image for render_mode='rgb_array'")
    return image
