"""Video files that are written frame by frame: mp4 if ffmpeg is installed, else GIF."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlexp.errors import ConfigError
from rlexp.installation_way import install_command

Frame = np.ndarray[Any, np.dtype[np.uint8]]
"""An image: height × width × 3 (red, green, blue), 0 to 255."""

DEFAULT_RATE = 30.0
"""Frames per second if the environment declares none."""
LARGEST_GIF = 400
"""Length of the longer side of a GIF, in pixels."""
MOST_GIF_FRAMES = 1500
GIF_RATE = 25.0
"""Largest number of frames per second that viewers play at the right speed."""


class VideoFile(Protocol):
    """A video file that is being written."""

    rate: float
    """Frames per second; may be set until the first frame is added."""

    def add(self, frame: Frame) -> None:
        """Append a frame."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...


class Mp4:
    """An mp4 video, written by ffmpeg."""

    def __init__(self, path: Path) -> None:
        self.rate = DEFAULT_RATE
        self._path = path
        self._writer: Any = None

    def add(self, frame: Frame) -> None:
        """Append a frame; an odd side is extended by one pixel, as the format requires."""
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
        # The writer is a generator: this runs it up to its first frame.
        writer.send(None)
        return writer


class Gif:
    """A small GIF; a long episode keeps fewer frames per second, but its whole duration."""

    def __init__(self, path: Path) -> None:
        self.rate = DEFAULT_RATE
        self._path = path
        self._every = 1
        self._seen = 0
        self._frames: list[Any] = []

    def add(self, frame: Frame) -> None:
        """Append a frame, or skip it to keep the frame rate."""
        from PIL import Image

        if not self._seen:
            self._every = max(1, round(self.rate / GIF_RATE))
        if self._seen % self._every == 0:
            image = Image.fromarray(frame)
            image.thumbnail((LARGEST_GIF, LARGEST_GIF))
            # A GIF has 256 colours at most, and such a frame takes a third of the memory.
            self._frames.append(image.quantize())
        self._seen += 1
        if len(self._frames) > MOST_GIF_FRAMES:
            # A GIF is written at the end from memory: halve the frame rate to bound the size.
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
    """The suffix of the video files that the installed packages can write.

    Raises:
        ConfigError: No package that writes videos is installed.
    """
    if find_spec("imageio_ffmpeg"):
        return ".mp4"
    if find_spec("PIL"):
        return ".gif"
    raise ConfigError.missing_package(
        "a video needs packages that are not installed", install_command("video")
    )


def open_video(path: Path) -> VideoFile:
    """Open a video file in the format of the suffix of `path`."""
    return Mp4(path) if path.suffix == ".mp4" else Gif(path)
