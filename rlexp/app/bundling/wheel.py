"""Packs the rlexp that is running as a wheel, with reproducible bytes.

A version does not say which code is running where rlexp is installed for editing, and an index may not
hold the version. The wheel holds what the installed wheel would hold: the package, its metadata, and the
packaged configuration.
"""

import hashlib
import io
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from rlexp.config.config_files import packaged_root
from rlexp.store.bundles.bundle_archive import archive_entry

PACKAGED = ("conf", "sweeps")
"""Folders beside the package in a checkout, and in the package in a wheel."""
WHEEL = "Wheel-Version: 1.0\nGenerator: rlexp bundle\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel_name() -> str:
    """The name of the wheel."""
    return f"rlexp-{distribution('rlexp').version}-py3-none-any.whl"


def pack_wheel() -> bytes:
    """The content of the wheel.

    Raises:
        OSError: A file of the installation cannot be read.
    """
    files = dict(sorted(_package_files()))
    installed = distribution("rlexp")
    information = f"rlexp-{installed.version}.dist-info"
    for name in ("METADATA", "entry_points.txt"):
        if text := installed.read_text(name):
            files[f"{information}/{name}"] = text.encode()
    files[f"{information}/WHEEL"] = WHEEL.encode()
    record = "".join(
        f"{name},{_record_sum(content)},{len(content)}\n" for name, content in files.items()
    )
    files[f"{information}/RECORD"] = f"{record}{information}/RECORD,,\n".encode()
    return _zipped(files)


def _zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(archive_entry(name), content)
    return packed.getvalue()


def _package_files() -> Iterator[tuple[str, bytes]]:
    package, root = Path(__file__).parents[2], packaged_root()
    folders = {package: "rlexp"}
    if root != package:
        folders |= {root / name: f"rlexp/{name}" for name in PACKAGED}
    for folder, prefix in folders.items():
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and "__pycache__" not in inside.parts and path.suffix != ".pyc":
                yield f"{prefix}/{inside.as_posix()}", path.read_bytes()


def _record_sum(content: bytes) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"
