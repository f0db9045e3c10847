"""The way in which stable-baselines3 saves, for comparison with rlexp's checkpoints."""

import zipfile
from pathlib import Path

from in_full import long
from injection import kill_at, traced

pytestmark = traced

LIBRARY = """
import sys
from pathlib import Path
from stable_baselines3 import PPO

path = Path(sys.argv[1])
model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu")
model.save(path.with_name("first.zip"))
path.with_name("first.zip").replace(path)
assert PPO.load(path, device="cpu")
model.save(path)
"""


@long
def test_the_same_kill_destroys_what_the_library_saved_before(tmp_path: Path) -> None:
    """A kill while stable-baselines3 saves destroys the model that it had saved before."""
    path = tmp_path / "model.zip"
    path.touch()
    outcome = kill_at("write", 3, LIBRARY, path, path=path)
    assert (-9, True) == (outcome.code, outcome.hit), outcome.output
    assert path.stat().st_size > 0
    assert not zipfile.is_zipfile(path)
