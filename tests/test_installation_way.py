"""The command that adds an optional package fits the way in which rlexp was installed."""

from pathlib import Path

import pytest

from rlexp.installation_way import install_command

RECEIPT = """\
[tool]
requirements = [
    { name = "rlexp", extras = ["mlflow"] },
    { name = "wandb-workspaces" },
]
entrypoints = [{ name = "rlexp", install-path = "/home/user/.local/bin/rlexp" }]
"""


@pytest.mark.parametrize(
    ("files", "pip", "expected"),
    [
        ({}, True, "pip install 'rlexp[wandb]'"),
        ({"pyvenv.cfg": "home = /usr/bin\n"}, True, "pip install 'rlexp[wandb]'"),
        ({"pyvenv.cfg": "home = /usr/bin\n"}, False, "pip install 'rlexp[wandb]'"),
        ({"pyvenv.cfg": "uv = 0.9.1\n"}, True, "pip install 'rlexp[wandb]'"),
        (
            {"pyvenv.cfg": "home = /usr/bin\nuv = 0.9.1\n"},
            False,
            "uv pip install --python {prefix} 'rlexp[wandb]'",
        ),
        ({"pipx_metadata.json": "{}"}, True, "pipx runpip rlexp install 'rlexp[wandb]'"),
        (
            {"uv-receipt.toml": RECEIPT, "pyvenv.cfg": "uv = 0.9.1\n"},
            False,
            "uv tool install 'rlexp[mlflow,wandb]' --with wandb-workspaces",
        ),
        ({"uv-receipt.toml": "not TOML ["}, False, "uv tool install 'rlexp[wandb]'"),
    ],
    ids=[
        *("no environment", "venv", "venv without pip", "uv venv with pip", "uv venv"),
        *("pipx", "uv tool", "uv tool with a damaged receipt"),
    ],
)
def test_the_command_fits_the_environment(
    tmp_path: Path, files: dict[str, str], pip: bool, expected: str
) -> None:
    """The command is that of pip, uv, uv tool or pipx, and keeps what was installed before."""
    prefix = tmp_path / "rlexp"
    prefix.mkdir()
    for name, content in files.items():
        (prefix / name).write_text(content)
    assert install_command("wandb", prefix, pip=pip) == expected.format(prefix=prefix)
