"""Videos of episodes, without a display, in every available format."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from sb3_contrib import ARS

from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.environments import Environment
from rlexp.errors import ConfigError
from rlexp.training import episode_video, video_file
from rlexp.training.video_file import Frame, Gif, ending, open_video

# imageio_ffmpeg leaves the pipes of its reader to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def task(*words: str) -> Environment:
    """The environment of a configuration."""
    (composed,) = compose(words, Path("nowhere"))
    environment: Environment = build(composed.plain["environment"], "environment")
    return environment


def frames(count: int, height: int = 40, width: int = 60) -> list[Frame]:
    """Grey images, each lighter than the one before."""
    return [np.full((height, width, 3), 2 * i, np.uint8) for i in range(count)]


def read_mp4(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """The properties and the frames of a video."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    with closing(ffmpeg.read_frames(str(path))) as reader:
        properties: dict[str, Any] = next(reader)
        return properties, list(reader)


def read_gif(path: Path) -> tuple[tuple[int, int], list[int]]:
    """The size of an animation, and the duration of each of its frames in milliseconds."""
    durations = []
    with pytest.importorskip("PIL.Image").open(path) as image:
        for position in range(image.n_frames):
            image.seek(position)
            durations.append(image.info["duration"])
        return image.size, durations


def write(path: Path, pictures: list[Frame], rate: float) -> None:
    """Write a video of images."""
    with closing(open_video(path)) as movie:
        movie.rate = rate
        for picture in pictures:
            movie.add(picture)


def test_mp4_holds_every_frame_at_the_environments_rate(tmp_path: Path) -> None:
    """An mp4 of ten frames at 20 per second holds ten frames at 20 per second."""
    pytest.importorskip("imageio_ffmpeg")
    write(tmp_path / "film.mp4", frames(10), 20)

    properties, video_frames = read_mp4(tmp_path / "film.mp4")

    assert (20.0, 10, (60, 40)) == (properties["fps"], len(video_frames), properties["size"])


def test_mp4_gains_a_row_where_a_side_is_odd(tmp_path: Path) -> None:
    """An odd side is extended by one pixel, because mp4 requires even sides."""
    pytest.importorskip("imageio_ffmpeg")
    write(tmp_path / "film.mp4", frames(3, height=41, width=61), 30)

    assert read_mp4(tmp_path / "film.mp4")[0]["size"] == (62, 42)


def test_gif_plays_as_long_as_the_episode(tmp_path: Path) -> None:
    """A GIF at 50 frames per second keeps every other frame, for 40 milliseconds each."""
    pytest.importorskip("PIL")
    write(tmp_path / "film.gif", frames(20), 50)

    assert read_gif(tmp_path / "film.gif")[1] == [40] * 10


def test_gif_is_small(tmp_path: Path) -> None:
    """The longer side of a GIF has 400 pixels."""
    pytest.importorskip("PIL")
    write(tmp_path / "film.gif", frames(2, height=500, width=1000), 10)

    assert read_gif(tmp_path / "film.gif")[0] == (400, 200)


def test_gif_of_a_long_episode_keeps_fewer_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long GIF has a bounded number of frames and its full duration."""
    pytest.importorskip("PIL")
    monkeypatch.setattr(video_file, "MOST_GIF_FRAMES", 8)
    movie = Gif(tmp_path / "film.gif")
    movie.rate = 10
    for picture in frames(32):
        movie.add(picture)
    movie.close()

    durations = read_gif(tmp_path / "film.gif")[1]
    assert len(durations) <= 8
    assert sum(durations) == 3200


def test_the_format_depends_on_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Videos are mp4 with ffmpeg, GIF with Pillow alone, and an error without both."""
    installed_packages = {"imageio_ffmpeg", "PIL"}
    monkeypatch.setattr(video_file, "find_spec", lambda name: name in installed_packages or None)
    assert ending() == ".mp4"
    installed_packages.remove("imageio_ffmpeg")
    assert ending() == ".gif"
    installed_packages.remove("PIL")
    with pytest.raises(ConfigError, match=r"pip install 'rlexp\[video\]'"):
        ending()


def record_untrained(environment: Environment, path: Path, **changes: Any) -> Any:
    """Record an untrained policy of a quickly built learner."""
    model = ARS("LinearPolicy", environment.make(), device="cpu")
    settings: dict[str, Any] = {"seed": 1, "sampling": 2, "deterministic": True, **changes}
    return episode_video.record_video(environment, model, path, **settings)


def test_a_video_shows_one_episode_from_its_first_state_to_its_last(tmp_path: Path) -> None:
    """The video of an episode of n steps has n + 1 frames, and none of the next episode."""
    pytest.importorskip("imageio_ffmpeg")
    episode_video.without_display()
    episodes = record_untrained(task("environment=cartpole"), tmp_path / "film.mp4")

    properties, video_frames = read_mp4(tmp_path / "film.mp4")

    assert episodes.lengths[0] + 1 == len(video_frames)
    assert ((600, 400), 50.0) == (properties["size"], properties["fps"])
    assert len({video_frames[0], video_frames[-1]}) == 2


class Invisible(gymnasium.Env[Any, Any]):
    """An environment that cannot be rendered."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 0.0, True, False, {}


def test_environment_that_cannot_be_rendered_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error for an environment without rendering names it and says what to do."""
    monkeypatch.setitem(
        gymnasium.registry,
        "Invisible-v0",
        gymnasium.envs.registration.EnvSpec("Invisible-v0", entry_point=lambda **_: Invisible()),
    )
    environment = task("environment=gymnasium", "environment.id=Invisible-v0")

    with pytest.raises(
        ConfigError, match=r"no video of Invisible-v0 can be recorded here: .* --video"
    ):
        record_untrained(environment, tmp_path / f"film{ending()}")


def test_rendering_is_configured_without_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering without a display sets variables, except those that the user set."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "PYOPENGL_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setattr(sys, "platform", "linux")
    variables = dict(os.environ)
    monkeypatch.setattr(os, "environ", variables)

    episode_video.without_display()

    assert (variables["SDL_VIDEODRIVER"], variables["MUJOCO_GL"]) == ("dummy", "osmesa")


def test_mujoco_is_recorded_without_a_display(tmp_path: Path) -> None:
    """MuJoCo is recorded without a display, in a process that has not imported it before."""
    pytest.importorskip("mujoco")
    path = tmp_path / f"film{ending()}"
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from " + episode_video.__name__ + " import without_display\n"
        "without_display()\n"
        "from " + __name__ + " import record_untrained, task\n"
        "words = 'environment=inverted_pendulum', 'environment.max_episode_steps=5'\n"
        "try:\n"
        "    print(record_untrained(task(*words), Path(sys.argv[1])).lengths[0])\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    folder = str(Path(__file__).parent)

    process = subprocess.run(
        [sys.executable, "-c", program, str(path), folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    last_line = process.stdout.strip().splitlines()[-1]
    if "can be recorded here" in last_line:
        pytest.skip(f"no OpenGL on this machine: {last_line}")
    assert int(last_line) > 0
    assert path.stat().st_size > 0
