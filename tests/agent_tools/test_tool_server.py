"""The MCP server answers with the documents of the command line, and grants its clients nothing."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import typed as rlexp
from in_full import long
from stored_runs import stored, study
from tool_client import SERVER, ToolClient, connected

from rlexp.app.commands.setup.init import init
from rlexp.cli.application import COMMANDS
from rlexp.installation_way import install_command
from rlexp.mcp.tools import TOOLS

WORDS = (
    *("environment=corridor", "algorithm=ppo", "algorithm.n_steps=64", "budget.steps=256"),
    *("budget.final_episodes=2", "budget.evaluation_every=null", "seeds.test=2", "experiment=two"),
)
READING: dict[str, tuple[dict[str, Any], str]] = {
    "list": ({}, "ls"),
    "list runs": ({"experiment": "alpha", "where": ["score>1"]}, "ls alpha --where score>1"),
    "show": ({"target": "alpha"}, "show alpha"),
    "show run": ({"target": "alpha/ppo-test-1"}, "show alpha/ppo-test-1"),
    "status": ({}, "status"),
    "search": ({"word": "gamma"}, "config search gamma"),
    "compare": ({"targets": ["alpha", "beta"]}, "compare alpha beta"),
    "compare with a margin": (
        {"targets": ["alpha", "beta"], "margin": 2.0, "interval": "percentile"},
        "compare alpha beta --margin 2.0 --interval percentile",
    ),
    "report": ({"targets": ["alpha", "beta"], "formats": ["md"]}, "report alpha beta --format md"),
    "cancel": ({"target": "alpha"}, "cancel alpha"),
}
"""Arguments of tools, and the words of the command that does the same."""
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "show": ({"target": "alhpa"}, "show alhpa"),
    "list": ({"where": ["socre>1"]}, "ls --where socre>1"),
    "run": ({"words": ["algoritm=ppo"]}, "run algoritm=ppo"),
    "run option": ({"words": ["algorithm=poo"]}, "run algorithm=poo"),
    "run range": ({"words": ["algorithm.gamma=3"]}, "run algorithm.gamma=3"),
    "compare": ({"targets": ["alpha"], "phase": "tset"}, "compare alpha --phase tset"),
    "report": ({"targets": ["alpha"], "formats": ["pfd"]}, "report alpha --format pfd"),
    "status": ({"experiment": "alhpa"}, "status alhpa"),
}
REFUSED = {
    "module of an id": ["environment=gymnasium", "environment.id=intruder:Corridor-v0"],
    "imports": ["environment=corridor", "environment.imports=[corridor,intruder]"],
    "class": ["algorithm._target_=intruder.Class"],
    "wrapper": ["environment=corridor", "environment.wrappers=[intruder.Wrapper]"],
    "script": ["algorithm=external", "algorithm.command='touch intruded'"],
    "tracker": ["tracker=[mlflow]"],
    "address": ["environment=corridor", "+tracker.mlflow.uri=http://intruder.example"],
    "cluster": ["executor=slurm", "executor.setup=['touch intruded']"],
    "package": ["+environment@tracker.x=corridor"],
    "option": ["--allow-import", "intruder"],
    "hydra": ["hydra.run.dir=/elsewhere"],
    "variable": ["environment=corridor", "experiment=${oc.env:HOME}"],
    "study file": ["../outside.yaml"],
    "linked study file": ["linked.yaml"],
}
"""Words that a client may not write."""


WRITING = {"show", "compare", "report"}
"""Tools whose first call writes: the report its files, and the others looks."""
MORE = {
    *("list runs", "show run", "compare with a margin", "run option", "run range"),
    *("wrapper", "address", "package", "hydra", "study file"),
}
"""Cases that resemble others, and run in the full suite only: each call is a process."""


def cases(names: Iterable[str]) -> list[Any]:
    """The parameters of a test, with those that are long marked."""
    return [pytest.param(name, marks=[long] if name in MORE else []) for name in names]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two stored experiments, and with code that a client could want to execute."""
    folder = tmp_path_factory.mktemp("parent") / "workspace"
    init(str(folder))
    for name, first in (("alpha", 1.0), ("beta", 4.0)):
        experiment = stored(study(folder).layout, name)
        for seed in range(3):
            experiment.complete(seed, first + seed)
    (folder / "intruder.py").write_text("open('intruded', 'w').close()\n")
    (folder.parent / "outside.yaml").write_text("name: outside\nwords: [algorithm=ppo]\n")
    (folder / "linked.yaml").symlink_to(folder.parent / "outside.yaml")
    return folder


@pytest.fixture(scope="module")
def client(workspace: Path) -> Iterator[ToolClient]:
    """A client of a server without permissions."""
    with connected(workspace) as connected_client:
        yield connected_client


def test_tools_are_commands_that_remove_nothing(client: ToolClient) -> None:
    """Every tool has a description, described arguments, and a command; none removes or renames."""
    tools = {tool.name: tool for tool in client.tools()}
    assert set(TOOLS) == set(tools)
    assert not {"rm", "gc", "mv", "note", "tag", "sync", "verify"} & set(tools)
    for name, tool in tools.items():
        command = {"list": "ls", "search": "config search"}.get(name, name)
        assert f"(`rlexp {command}`)" in (tool.description or "")
        assert command.split()[0] in {*COMMANDS, "config"}
        assert all(p["description"] for p in tool.input_schema["properties"].values())
        assert tool.annotations is not None
        assert tool.annotations.destructive_hint is False


@pytest.mark.parametrize("name", cases(READING))
def test_documents_are_those_of_the_command(
    client: ToolClient, workspace: Path, name: str
) -> None:
    """A tool returns the document of its command with `--json`, and the answer on one line."""
    arguments, words = READING[name]
    tool = name.split(maxsplit=1)[0]
    if tool in WRITING:
        client.call(tool, **arguments)
    result = client.call(tool, **arguments)
    command = rlexp(workspace, *words.split(), "--json")
    assert command.content == result.structured_content, command.err
    assert command.content == json.loads(result.content[1].text)  # type: ignore[union-attr]
    assert not result.is_error
    assert result.content[0].text.count("\n") == 0  # type: ignore[union-attr]
    assert len(result.content[0].text) > 10  # type: ignore[union-attr]


@pytest.mark.parametrize("name", cases(MISTAKES))
def test_errors_are_those_of_the_command(client: ToolClient, workspace: Path, name: str) -> None:
    """A mistake gives the sentence and the document of the command line."""
    arguments, words = MISTAKES[name]
    result = client.call(name.split(maxsplit=1)[0], **arguments)
    expected = rlexp(workspace, *words.split(), "--json").content
    assert result.is_error
    assert expected == result.structured_content
    assert expected["message"] == result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("rm", {"target": "alpha"}, "unknown_value"),
        ("show", {}, "missing_value"),
        ("show", {"target": 3}, "wrong_type"),
        ("show", {"target": "alpha", "allow_import": ["os"]}, "unknown_setting"),
        ("run", {"words": "algorithm=ppo"}, "wrong_type"),
        ("run", {"wait_seconds": -1}, "out_of_range"),
        ("show", {"target": "${oc.env:HOME}"}, "not_allowed"),
        ("report", {"targets": ["alpha"], "output": "../reports"}, "not_allowed"),
        ("report", {"targets": ["alpha"], "figures": "/tmp/figures"}, "not_allowed"),
    ],
)
def test_wrong_arguments_are_refused(
    client: ToolClient, workspace: Path, tool: str, arguments: dict[str, Any], code: str
) -> None:
    """Unknown tools and arguments, wrong types and paths outside are refused with a stable code."""
    result = client.call(tool, **arguments)
    assert result.is_error
    assert code == result.structured_content["code"], result.structured_content
    assert (workspace / "runs" / "alpha").is_dir()
    assert not (workspace.parent / "reports").exists()


@pytest.mark.parametrize("name", cases(REFUSED))
def test_words_of_a_client_reach_nothing_further(
    client: ToolClient, workspace: Path, name: str
) -> None:
    """A word that names code, a service or a file elsewhere is refused, and nothing is executed."""
    before = sorted((workspace / "runs").iterdir())
    result = client.call("run", words=REFUSED[name], dry_run=True)
    assert result.is_error
    assert "not_allowed" == result.structured_content["code"], result.structured_content
    assert not (workspace / "intruded").exists()
    assert before == sorted((workspace / "runs").iterdir())


def test_two_runs_are_trained_and_judged(client: ToolClient, workspace: Path) -> None:
    """A client plans and trains an environment of the workspace, and repeats the call for free."""
    plan = client.document("run", words=WORDS, dry_run=True)
    assert ("run-plan", 2) == (plan["schema"]["name"], plan["runs"])
    first = client.document("run", words=WORDS, wait_seconds=200, probe=False)
    assert ("run-outcome", 2, True) == (first["schema"]["name"], first["ran"], first["complete"])
    again = client.document("run", words=WORDS, wait_seconds=200, probe=False)
    assert 0 == again["ran"]
    assert rlexp(workspace, "run", *WORDS, "--json").content == again
    assert "two is finished: 2 completed" == _text(client.call("status", experiment="two"))
    shown = rlexp(workspace, "show", "two", "--json").content
    assert shown == client.document("show", target="two")


def _text(result: Any) -> str:
    return str(result.content[0].text)


def test_permission_comes_from_the_command(workspace: Path) -> None:
    """With --allow-import, the server accepts what it refuses without, and executes it."""
    words = REFUSED["imports"]
    with connected(
        workspace, "--allow-import", "intruder", "--allow-import", "corridor"
    ) as allowed:
        plan = allowed.document("run", words=[*words, "experiment=allowed"], dry_run=True)
    assert "run-plan" == plan["schema"]["name"], plan
    (workspace / "intruded").unlink()


def test_standard_output_carries_the_protocol_only(workspace: Path) -> None:
    """An environment that prints reaches standard error; each line of standard output is a message."""
    (workspace / "noisy.py").write_text(
        "import os\nimport corridor\nprint('NOISE')\nos.system('echo NOISE')\n"
    )
    conf = (workspace / "conf" / "environment" / "corridor.yaml").read_text()
    noisy = conf.replace("imports: [corridor]", "imports: [noisy]")
    (workspace / "conf" / "environment" / "noisy.yaml").write_text(noisy)
    client_info = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info}
    call = {"name": "run", "arguments": {"words": ["environment=noisy"], "dry_run": True}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    with subprocess.Popen(
        [sys.executable, *SERVER, "--workspace", str(workspace)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        for message in messages:
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
        assert "" == server.stdout.read()
        assert 2 == server.stderr.read().count("NOISE")
    assert 0 == server.returncode
    assert [1, 2] == [answer["id"] for answer in answers]
    assert "run-plan" == answers[1]["result"]["structuredContent"]["schema"]["name"]


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK, the command names the package and the command that installs it."""
    monkeypatch.setattr("rlexp.cli.setup.mcp.find_spec", lambda _: None)
    printed = rlexp(tmp_path, "mcp", "--json")
    command = install_command("mcp")
    assert 2 == printed.code
    assert ("missing_package", command) == (printed.content["code"], printed.content["command"])
    assert f"rlexp: rlexp mcp needs the package mcp: {command}\n" == printed.err


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    """A workspace that does not exist is refused with the command that creates one."""
    printed = rlexp(tmp_path, "mcp", "--workspace", "nowhere")
    assert (2, 1) == (printed.code, printed.err.count("\n"))
    assert "rlexp init nowhere" in printed.err
