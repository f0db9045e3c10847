"""Network file systems are recognised by the mounts that the kernel lists."""

import os
from pathlib import Path

import pytest

from rlexp.store.file_systems import _is_network_device, is_shared, network_file_system

MOUNTS = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:40 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
23 22 0:41 / /home/me/local\040disk rw,relatime - xfs /dev/sdb1 rw
24 21 0:42 / /scratch rw,relatime - ext4 /dev/sdc1 rw
25 21 0:43 / /scratch rw,relatime master:3 - lustre mds@tcp:/scratch rw
not a mount
"""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/var/runs", None),
        ("/home/me/study/runs", "nfs4"),
        ("/home/me/local disk/runs", None),
        ("/home/me/local", "nfs4"),
        ("/homely", None),
        ("/scratch/me", "lustre"),
    ],
)
def test_the_innermost_mount_decides(tmp_path: Path, folder: str, expected: str | None) -> None:
    """The longest mount point that contains the folder decides; of equal ones, the last."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert expected == network_file_system(Path(folder), mounts)


def test_without_a_list_of_mounts_none_is_known(tmp_path: Path) -> None:
    """Without the kernel's list of mounts, no network file system is reported."""
    assert network_file_system(tmp_path, tmp_path / "none") is None


def test_mounts_of_this_machine_are_read(tmp_path: Path) -> None:
    """The real list of mounts is read without an error."""
    assert network_file_system(tmp_path) in {None, "nfs", "nfs4", "9p", "lustre", "ceph"}


@pytest.mark.parametrize(("number", "expected"), [(40, True), (41, False), (43, True), (9, False)])
def test_a_file_system_is_known_by_its_number(tmp_path: Path, number: int, expected: bool) -> None:
    """A network file system is recognised by its device number, without its path."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert expected == _is_network_device(os.makedev(0, number), mounts)


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("", False), ("0", False)])
def test_the_user_says_that_a_folder_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    """RLEXP_SHARED=1 makes any folder shared, even one that does not exist."""
    monkeypatch.setenv("RLEXP_SHARED", value)
    expected = expected or network_file_system(tmp_path) is not None
    assert expected == is_shared(tmp_path / "runs" / "x" / ".lock")


def test_path_and_number_agree_on_this_machine(tmp_path: Path) -> None:
    """The check by device number gives the same answer as the check by path."""
    assert (network_file_system(tmp_path) is not None) == is_shared(tmp_path / "x")
