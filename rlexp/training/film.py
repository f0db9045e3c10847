"""Video files that grow by a frame at a time: mp4 where ffmpeg is installed, else GIF."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlexp.errors import ConfigError

Frame = np.ndarray[Any, np.dtype[np.uint8]]
"""A picture: height × width × 3, red, green and blue from 0 to 255."""

DEFAULT_RATE = 30.0
"""Frames per second where the environment does not say."""
LARGEST_GIF = 400
"""Pixels of the longer side of a GIF."""
MOST_GIF_FRAMES = 1500
GIF_RATE = 25.0
"""Frames per second beyond which viewers do not play a GIF at its own speed."""


class Film(Protocol):
    """A video file in the making."""

    rate: float
    """Frames per second; may be set until the first frame is added."""

    def add(self, frame: Frame) -> None:
        """Append a frame."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...


class Mp4:
    """A video by ffmpeg, frame by frame."""

    def __init__(self, path: Path) -> None:
        self.rate = DEFAULT_RATE
        self._path = path
        self._writer: Any = None

    def add(self, frame: Frame) -> None:
        """Append a frame; the format takes even sides only, so an odd one gains a row."""
        height, width = frame.shape[:2]
        frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        if self._writer is None:
            self._writer = self._open(frame.shape[1], frame.shape[0])
        self._writer.send(np.ascontiguousarray(frame))

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, width: int, height: int) -> Any:
        import imageio_ffmpeg

        writer = imageio_ffmpeg.write_frames(
            str(self._path),
            (width, height),
            fps=self.rate,
            macro_block_size=2,
            ffmpeg_log_level="error",
        )
        writer.send(None)
        return writer


class Gif:
    """A small animation; a long episode keeps fewer frames a second, not fewer seconds."""

    def __init__(self, path: Path) -> None:
        self.rate = DEFAULT_RATE
        self._path = path
        self._every = 1
        self._seen = 0
        self._frames: list[Any] = []

    def add(self, frame: Frame) -> None:
        """Append a frame, if it is one of those that are kept."""
        from PIL import Image

        if not self._seen:
            self._every = max(1, round(self.rate / GIF_RATE))
        if self._seen % self._every == 0:
            image = Image.fromarray(frame)
            image.thumbnail((LARGEST_GIF, LARGEST_GIF))
            self._frames.append(image.quantize())
        self._seen += 1
        if len(self._frames) > MOST_GIF_FRAMES:
            self._frames, self._every = self._frames[::2], self._every * 2

    def close(self) -> None:
        """Finish the file."""
        if self._frames:
            first, *others = self._frames
            milliseconds = round(1000 * self._every / self.rate)
            first.save(
                self._path, save_all=True, append_images=others, duration=milliseconds, loop=0
            )


def ending() -> str:
    """The ending of the files that can be written here.

    Raises:
        ConfigError: Nothing that writes videos is installed.
    """
    if find_spec("imageio_ffmpeg"):
        return ".mp4"
    if find_spec("PIL"):
        return ".gif"
    raise ConfigError(
        "a video needs packages that are not installed: pip install 'rlexp[video]'",
        code="missing_package",
        command="pip install 'rlexp[video]'",
    )


def open_film(path: Path) -> Film:
    """Begin a film in the format that the path's ending names."""
    return Mp4(path) if path.suffix == ".mp4" else Gif(path)
