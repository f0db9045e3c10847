"""Event files of TensorBoard are read like TensorBoard reads them, and refused when damaged."""

import struct
from pathlib import Path

import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from import_sources import RECORDED, given

from rlexp.errors import ConfigError
from rlexp.exchange.importers.event_file import Scalar, checksum, checksums, read_records
from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    ImportOptions,
    MalformedError,
    ReturnKind,
    StepUnit,
)
from rlexp.exchange.importers.sources import LoadedFile
from rlexp.exchange.importers.tensorboard import parse_folder_name, read_tensorboard

OPTIONS = ImportOptions(unit=ENVIRONMENT)
CLEANRL = RECORDED / "cleanrl"


def recorded() -> bytes:
    """The content of a file that the library's SummaryWriter wrote."""
    [path] = CLEANRL.rglob("*tfevents*")
    return path.read_bytes()


def scalars(content: bytes) -> list[Scalar]:
    """The scalars of an event file with this content."""
    return list(read_records(LoadedFile("events", content, "")).scalars)


def test_checksums() -> None:
    """The unmasked CRC-32C of the standard check text is the published value."""
    rotated = checksum(b"123456789") - 0xA282EAD8 & 0xFFFFFFFF
    assert 0xE3069283 == (rotated << 15 | rotated >> 17) & 0xFFFFFFFF


@over(st.lists(st.binary(max_size=5), max_size=150))
def test_checksums_side_by_side(texts: list[bytes]) -> None:
    """Checksums computed together equal those computed one by one."""
    assert [checksum(text) for text in texts] == checksums(texts)


def test_a_run_of_cleanrl() -> None:
    """Returns, lengths and times of every episode are read, and the folder names the run."""
    [run] = read_tensorboard(given(CLEANRL), OPTIONS).runs
    assert ("CartPole-v1", "dqn", 1) == (run.task, run.label, run.seed)
    assert ReturnKind.TRAINING is run.returns
    assert [(20, (20.0,), (20,)), (55, (35.0, 12.5), (35, 30)), (100, (45.0,), (45,))] == [
        (p.step, p.returns, p.lengths) for p in run.points
    ]
    assert all(point.time is not None for point in run.points)


def test_numbers_of_every_form() -> None:
    """Simple values and tensors of both precisions are read as scalars; histograms are not."""
    values = {scalar.tag: scalar.value for scalar in scalars(recorded())}
    assert {"new_style": 1.5, "double": 2.5, "losses/td_loss": 0.5}.items() <= values.items()
    assert not {"weights", "hyperparameters/text_summary"} & set(values)


def test_as_tensorboard_reads_it(tmp_path: Path) -> None:
    """A new file gives the same scalars as TensorBoard's own loader."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path / "a"))
    for step in range(300):
        writer.add_scalar("rollout/ep_rew_mean", step / 7, step * 1000)
        writer.add_scalar("time/fps", 1e30, -step)
    writer.close()
    accumulator = EventAccumulator(str(tmp_path / "a"), size_guidance={"scalars": 0})
    accumulator.Reload()
    [file] = given(tmp_path / "a")
    all_scalars = list(read_records(file.load()).scalars)
    for tag in accumulator.Tags()["scalars"]:
        expected = [(e.step, e.value, e.wall_time) for e in accumulator.Scalars(tag)]
        actual = [(s.step, s.value, s.time) for s in all_scalars if s.tag == tag]
        if tag == "rollout/ep_rew_mean":
            assert expected == actual
        assert len(expected) == len(actual)


def record(content: bytes) -> bytes:
    """A record with its length and checksums, as it is stored in a file."""
    head = struct.pack("<Q", len(content))
    return (
        head + struct.pack("<I", checksum(head)) + content + struct.pack("<I", checksum(content))
    )


FIRST = record(b"\x1a\x0dbrain.Event:2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an event file"),
        (b"r,l,t\n" * 40, "checksum of its length"),
        (record(b"\x10\x01"), "not an event file"),
        (FIRST + b"\x05", "cut off"),
        (FIRST + record(b"\x10"), "not an event"),
        (FIRST + record(b"\x0b\x00"), "not an event: a field of kind 3"),
        (FIRST + record(b"\x2a\x7f"), "not an event: a field is cut off"),
        (FIRST + record(b"\x10" + b"\xff" * 12), "not an event: a number is too long"),
        (FIRST + record(b"\x2a\x05\x0a\x03\x0a\x01\xff"), "not an event"),
    ],
)
def test_damaged_files(content: bytes, message: str) -> None:
    """The error names the damaged record."""
    with pytest.raises(MalformedError, match=message):
        scalars(content)


def test_every_damage_is_noticed() -> None:
    """A file that is cut inside a record, or has any bit changed, is refused."""
    content = recorded()[:700]
    ends = {0}
    while (start := max(ends)) + 12 <= len(content):
        ends.add(start + 16 + int.from_bytes(content[start : start + 8], "little"))
    last_end = max(end for end in ends if end <= len(content))
    content = content[:last_end]
    for count in range(1, len(content)):
        if count not in ends:
            with pytest.raises(MalformedError):
                scalars(content[:count])
        with pytest.raises(MalformedError):
            scalars(
                content[:count] + bytes([content[count] ^ 1 << count % 8]) + content[count + 1 :]
            )


@pytest.mark.parametrize(
    ("name", "task", "label", "seed"),
    [
        ("runs/CartPole-v1__ppo__1__1700000000", "CartPole-v1", "ppo", 1),
        ("runs/ALE/Breakout-v5__ppo_atari__3__1700", "ALE/Breakout-v5", "ppo_atari", 3),
        ("a__b-v1__c51__12__9", "a__b-v1", "c51", 12),
        ("runs/PPO_1", None, None, None),
        ("runs/a__b__seed__1", None, None, None),
        ("runs/__b__1__2", None, None, None),
    ],
)
def test_names_of_cleanrl(
    name: str, task: str | None, label: str | None, seed: int | None
) -> None:
    """Folder names are parsed from the end, because a task may contain the separator."""
    parsed_name = parse_folder_name(name)
    assert (task, label, seed) == (parsed_name.task, parsed_name.label, parsed_name.seed)


def test_units_must_be_given() -> None:
    """An import without the unit of steps is refused; frames are converted to steps."""
    with pytest.raises(ConfigError, match="--steps-unit"):
        read_tensorboard(given(CLEANRL), ImportOptions())
    frames = ImportOptions(unit=StepUnit(name="frames", per=5))
    [run] = read_tensorboard(given(CLEANRL), frames).runs
    assert [4, 11, 20] == [point.step for point in run.points]


def test_series_are_chosen_by_name() -> None:
    """The kind of an unknown series follows from its name; a missing one is refused."""
    files = given(CLEANRL)
    [run] = read_tensorboard(files, ImportOptions(unit=ENVIRONMENT, metric="losses/td_loss")).runs
    assert (ReturnKind.TRAINING_MEANS, ()) == (run.returns, run.points[0].lengths)
    with pytest.raises(MalformedError, match="did you mean 'charts/episodic_return'"):
        read_tensorboard(files, ImportOptions(unit=ENVIRONMENT, metric="episodic_return"))


@pytest.fixture
def two_files(tmp_path: Path) -> Path:
    """A folder into which two runs wrote."""
    folder = tmp_path / "A__b__1__2"
    folder.mkdir()
    for name in ("events.out.tfevents.1", "events.out.tfevents.2"):
        (folder / name).write_bytes(recorded())
    return folder


def test_two_runs_in_a_folder(two_files: Path) -> None:
    """A folder whose steps go back holds two runs and is refused; each file alone is read."""
    with pytest.raises(MalformedError, match="step 20 follows 100"):
        read_tensorboard(given(two_files), OPTIONS)
    options = ImportOptions(unit=ENVIRONMENT, label="a", task="b")
    assert 1 == len(read_tensorboard(given(two_files / "events.out.tfevents.1"), options).runs)
