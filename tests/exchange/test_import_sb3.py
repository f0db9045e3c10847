"""Monitor and evaluation files that Stable-Baselines3 wrote, and damaged ones."""

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from import_sources import WANTED, given, npz, write_evaluations, write_monitors

from rlexp.exchange.importers.imported_study import (
    ImportOptions,
    MalformedError,
    ReturnKind,
    StepUnit,
)
from rlexp.exchange.importers.sb3_evaluations import read_evaluations
from rlexp.exchange.importers.sb3_monitor import read_monitors

HEAD = '#{"t_start": 100.0, "env_id": "Toy-v0"}\nr,l,t\n'


def test_one_environment(tmp_path: Path) -> None:
    """The step of an episode is the number of steps taken at its end."""
    write_monitors(tmp_path / "a", [3, 5, 2])
    [run] = read_monitors(given(tmp_path / "a"), WANTED).runs
    assert [3, 8, 10] == [point.step for point in run.points]
    assert [(3.0,), (5.0,), (2.0,)] == [point.returns for point in run.points]
    assert [(3,), (5,), (2,)] == [point.lengths for point in run.points]
    assert (ReturnKind.TRAINING, "Toy-v0", None) == (run.returns, run.task, run.seed)
    assert run.started is not None
    assert all(p.time is not None and p.time >= run.started for p in run.points)


def test_environments_side_by_side(tmp_path: Path) -> None:
    """One step of an environment counts as one step of each environment."""
    write_monitors(tmp_path / "a", [3, 5], [4, 4], [8])
    [run] = read_monitors(given(tmp_path / "a"), WANTED).runs
    assert [9, 12, 24, 24, 24] == [point.step for point in run.points]
    assert 3 == run.details["environments"]
    assert ["a/0.monitor.csv", "a/1.monitor.csv", "a/2.monitor.csv"] == [f[0] for f in run.files]


def test_a_folder_is_a_run(tmp_path: Path) -> None:
    """Each folder is a run, and its name contains the seed."""
    write_monitors(tmp_path / "logs" / "seed_7", [3])
    write_monitors(tmp_path / "logs" / "seed_10", [4])
    runs = read_monitors(given(tmp_path / "logs"), WANTED).runs
    expected = [("logs/seed_7", 7), ("logs/seed_10", 10)]
    assert expected == [(run.name, run.seed) for run in runs]


def test_task_of_the_header(tmp_path: Path) -> None:
    """The header names the task; without an id of the environment, --task is needed."""
    path = tmp_path / "monitor.csv"
    path.write_text(HEAD + "1.0,2,0.5\n")
    [run] = read_monitors(given(path), ImportOptions(label="PPO")).runs
    assert "Toy-v0" == run.task
    path.write_text(HEAD.replace("Toy-v0", "None") + "1.0,2,0.5\n")
    with pytest.raises(MalformedError, match="nothing names a task for it: give --task"):
        read_monitors(given(path), ImportOptions(label="PPO"))


def test_further_columns(tmp_path: Path) -> None:
    """Additional columns are ignored."""
    path = tmp_path / "monitor.csv"
    path.write_text(HEAD.replace("r,l,t", "r,l,t,success") + '1.0,2,0.5,"a, b"\r\n')
    [run] = read_monitors(given(path), WANTED).runs
    assert [(1.0,)] == [point.returns for point in run.points]


def test_frames_are_divided(tmp_path: Path) -> None:
    """Frames are divided by the frame skip."""
    path = tmp_path / "monitor.csv"
    path.write_text(HEAD + "1.0,400,0.5\n2.0,402,0.6\n")
    options = ImportOptions(label="PPO", unit=StepUnit(name="frames", per=4))
    [run] = read_monitors(given(path), options).runs
    assert [100, 200] == [point.step for point in run.points]


@pytest.mark.parametrize(
    ("content", "location"),
    [
        ("", "line 1"),
        ("r,l,t\n1.0,2,0.5\n", "line 1"),
        ("#{nonsense\nr,l,t\n", "line 1"),
        ('#{"env_id": "a"}\nr,l,t\n', "t_start"),
        ('#{"t_start": "x"}\nr,l,t\n', "t_start"),
        (HEAD.replace("r,l,t", "l,r,t") + "1.0,2,0.5\n", "line 2"),
        (HEAD + "1.0,2\n", "line 3"),
        (HEAD + "1.0,2,0.5\none,2,0.6\n", "line 4"),
        (HEAD + "1.0,2.5,0.5\n", "line 3: l is '2.5'"),
        (HEAD + "1.0,-2,0.5\n", "line 3: l is '-2'"),
        (HEAD + "1.0,1e99,0.5\n", "line 3: l is '1e99'"),
        (HEAD + "1_0,2,0.5\n", "line 3: r is '1_0'"),
        (HEAD + '1.0,2,"0.5\n', "line"),
        (HEAD + "1.0,2,0.5\n1.0,2,0.", "line 4: the line is cut off"),
        (HEAD.replace("Toy-v0", "a\\u001b[31mb") + "1.0,2,0.5\n", "env_id"),
    ],
)
def test_damaged_monitors(tmp_path: Path, content: str, location: str) -> None:
    """The error names the damaged line."""
    (tmp_path / "monitor.csv").write_text(content)
    with pytest.raises(MalformedError, match=r"monitor\.csv") as caught:
        read_monitors(given(tmp_path / "monitor.csv"), ImportOptions(label="PPO"))
    assert location in str(caught.value)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    """A cut inside a line is refused; a file that is cut after a line is read."""
    path = tmp_path / "monitor.csv"
    content = HEAD + "1.0,2,0.5\n12.0,22,1.5\n"
    ends = {len(HEAD), len(HEAD) + len("1.0,2,0.5\n")}
    for count in range(len(content)):
        path.write_text(content[:count])
        if count in ends:
            assert count > len(HEAD) or not read_monitors(given(path), WANTED).runs[0].points
            continue
        with pytest.raises(MalformedError):
            read_monitors(given(path), WANTED)


def test_not_a_number_ends_the_run(tmp_path: Path) -> None:
    """Points before a non-finite return are kept, and the run failed at that return."""
    path = tmp_path / "monitor.csv"
    path.write_text(HEAD + "1.0,2,0.5\nnan,2,0.6\n3.0,2,0.7\n")
    [run] = read_monitors(given(path), WANTED).runs
    assert [2] == [point.step for point in run.points]
    assert run.trouble is not None
    assert (4, "nan") == (run.trouble.step, run.trouble.failure)


def test_evaluations(tmp_path: Path) -> None:
    """Every episode of every evaluation is read with its length."""
    path = write_evaluations(tmp_path / "seed_3", [100, 200], [[1.0, 2.0], [3.0, 4.0]])
    [run] = read_evaluations(given(path.parent), WANTED).runs
    assert [(100, (1.0, 2.0), (10, 10)), (200, (3.0, 4.0), (10, 10))] == [
        (p.step, p.returns, p.lengths) for p in run.points
    ]
    assert (ReturnKind.EVALUATIONS, 3) == (run.returns, run.seed)


def test_files_of_a_real_training(tmp_path: Path) -> None:
    """The files of a short training with EvalCallback and Monitor are read correctly."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env

    callback = EvalCallback(
        make_vec_env("CartPole-v1"),
        eval_freq=32,
        n_eval_episodes=2,
        log_path=str(tmp_path / "evaluated"),
        verbose=0,
    )
    monitored = make_vec_env("CartPole-v1", n_envs=2, monitor_dir=str(tmp_path / "monitored"))
    model = PPO("MlpPolicy", monitored, n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    model.learn(128, callback=callback)
    monitored.close()
    [run] = read_evaluations(given(tmp_path / "evaluated"), WANTED).runs
    assert callback.evaluations_timesteps == [point.step for point in run.points]
    assert callback.evaluations_results == [list(point.returns) for point in run.points]
    [training_run] = read_monitors(given(tmp_path / "monitored"), ImportOptions(label="PPO")).runs
    assert "CartPole-v1" == training_run.task
    assert 0 < training_run.points[-1].step <= 128


ARRAYS = {"timesteps": [1, 2], "results": [[1.0], [2.0]], "ep_lengths": [[5], [5]]}


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        ({"timesteps": None}, "timesteps: the array is missing"),
        ({"results": None}, "results: the array is missing"),
        ({"timesteps": [2, 1]}, "step 1 follows 2"),
        ({"timesteps": [1, 1]}, "step 1 follows 1"),
        ({"timesteps": [-1, 2]}, "timesteps: it holds values that are not whole"),
        ({"timesteps": [1.5, 2.5]}, "timesteps: it holds values that are not whole"),
        ({"timesteps": [1]}, "1 steps and 2 evaluations"),
        (
            {"timesteps": [], "results": np.empty((0, 0)), "ep_lengths": np.empty((0, 0))},
            "0 steps",
        ),
        ({"results": [1.0, 2.0]}, "shapes"),
        ({"ep_lengths": [[5, 5], [5, 5]]}, "shapes"),
        ({"results": [["a"], ["b"]]}, "Python objects are never loaded"),
        ({"results": np.array([[{}], [{}]], dtype=object)}, "Python objects are never loaded"),
        ({"results": np.array([[1j], [2j]])}, "Python objects are never loaded"),
    ],
)
def test_damaged_evaluations(tmp_path: Path, changes: dict[str, Any], location: str) -> None:
    """The error names the damaged array."""
    arrays = {key: value for key, value in {**ARRAYS, **changes}.items() if value is not None}
    path = tmp_path / "evaluations.npz"
    path.write_bytes(npz(**arrays))
    with pytest.raises(MalformedError) as caught:
        read_evaluations(given(path), WANTED)
    assert location in str(caught.value)


class _Canary:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.folder,)


def test_no_pickle_is_opened(tmp_path: Path) -> None:
    """An array of objects is a pickle and is refused without being loaded."""
    canary, path = tmp_path / "canary", tmp_path / "evaluations.npz"
    path.write_bytes(npz(**{**ARRAYS, "results": np.array([[_Canary(canary)]], dtype=object)}))
    with pytest.raises(MalformedError, match="Python objects are never loaded"):
        read_evaluations(given(path), WANTED)
    assert not canary.exists()
    with pytest.raises(FileNotFoundError):
        canary.rmdir()
    pickle.loads(pickle.dumps(_Canary(canary)))
    assert canary.exists()


def test_arrays_that_claim_too_much(tmp_path: Path) -> None:
    """A header that contradicts the size is refused before memory is allocated."""
    path = tmp_path / "evaluations.npz"
    path.write_bytes(npz(**ARRAYS))
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    results = members["results.npy"]
    members["results.npy"] = results.replace(b"(2, 1), }       ", b"(2, 99999999), }")
    assert results != members["results.npy"]
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(MalformedError, match="16 bytes do not fill an array of shape"):
        read_evaluations(given(path), WANTED)


def test_every_damage_of_an_archive(tmp_path: Path) -> None:
    """An archive with any cut or changed byte gives an error, never a traceback."""
    path = tmp_path / "evaluations.npz"
    content = npz(**ARRAYS)
    for count in range(0, len(content), 7):
        path.write_bytes(content[:count])
        with pytest.raises(MalformedError):
            read_evaluations(given(path), WANTED)
        path.write_bytes(content[:count] + bytes([content[count] ^ 0xFF]) + content[count + 1 :])
        with suppress(MalformedError):
            read_evaluations(given(path), WANTED)


def test_json_of_a_header_is_bounded(tmp_path: Path) -> None:
    """A header with very deep nesting is refused."""
    path = tmp_path / "monitor.csv"
    path.write_text(f'#{{"t_start": {"[" * 90_000}\nr,l,t\n')
    with pytest.raises(MalformedError, match="line 1"):
        read_monitors(given(path), WANTED)


@pytest.mark.parametrize(
    ("options", "option"), [(ImportOptions(), "label"), (ImportOptions(label="a"), "task")]
)
def test_missing_names_need_an_option(tmp_path: Path, options: ImportOptions, option: str) -> None:
    """The error names the option for a missing label or task."""
    path = write_evaluations(tmp_path / "a", [1], [[1.0]])
    with pytest.raises(MalformedError, match=f"nothing names a {option} for it: give --{option}"):
        read_evaluations(given(path), options)
