"""`rlexp doctor` names faults and remedies, and survives the code that it examines."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from command_line import typed as rlexp
from finished_runs import study
from packaging.requirements import Requirement
from quick_parts import quick_parts
from warm_processes import warm_up

import rlexp.app.commands.setup.doctor as command
from rlexp.app.diagnostics import environment, environment_probe, machine
from rlexp.app.diagnostics.environment import candidates, examine_environment, list_compatible
from rlexp.app.diagnostics.environment_probe import STARTS_AGAIN, execute
from rlexp.app.diagnostics.finding import Finding, FindingStatus, fail, ok, warn
from rlexp.app.diagnostics.installation import (
    NOT_FOR_USERS,
    check_extras,
    check_installation,
    check_pairs,
    check_python,
    check_requirements,
)
from rlexp.app.diagnostics.machine import (
    check_cores,
    check_disk,
    check_gpu,
    check_lock,
    check_machine,
    check_processes,
    check_threads,
    cpu_quota,
)
from rlexp.app.diagnostics.random_steps import contradiction
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.errors import ConfigError
from rlexp.executors import local

quick = pytest.fixture(autouse=True)(quick_parts)

HERE = Path(__file__).parents[1]


@cache
def configured() -> dict[str, Any]:
    """The configuration of an environment that Gymnasium knows by its id."""
    words = ["environment=gymnasium", "environment.id='faulty_environments:faulty/Good-v0'"]
    (composed,) = compose(words, HERE)
    settings: dict[str, Any] = composed.plain["environment"]
    return settings


def probed(name: str, folder: Path) -> dict[str, Finding]:
    """The findings about a faulty environment, which is probed in the current process."""
    settings = {**configured(), "id": f"faulty_environments:faulty/{name}-v0"}
    request = {"environment": settings, "allowed": []}
    (folder / "request.json").write_text(json.dumps(request))
    execute([str(folder)])
    result = [json.loads(line) for line in (folder / "findings.jsonl").read_text().splitlines()]
    return {f["check"]: Finding(**{**f, "status": FindingStatus(f["status"])}) for f in result}


BROKEN = {
    "NanObservation": ("step", "step 3: observation[2] is nan"),
    "Outside": ("step", "step 3: observation[1] is 5.0, outside -1.0 … 1.0"),
    "Shape": ("step", "step 3: observation has shape (3,), declared is (4,)"),
    "NanReward": ("step", "step 3: reward is nan"),
    "ArrayReward": ("step", "step 3: reward has shape (2,)"),
    "NoReward": ("step", "step 3: reward is None, a NoneType"),
    "OldStep": ("step", "step 3: returns 4 values, not five"),
    "NumberAsFlag": ("step", "step 3: terminated is 1, a int"),
    "NoInfo": ("step", "step 3: info is a NoneType"),
    "Raises": ("step", "step 3 raises KeyError: 'lost' (faulty_environments.py:"),
    "Leaves": ("step", "step 3 raises SystemExit: 5 (faulty_environments.py:"),
    "MissingKey": ("step", "step 3: observation has ['near'], declared is ['far', 'near']"),
    "OldReset": ("reset", "reset returns a ndarray, not a pair"),
    "NoSpaces": ("spaces", "observation_space is (4,)"),
    "BadClose": ("close", "close raises RuntimeError: cannot let go"),
    "BadConstructor": ("make", "making it raises ValueError: no such level"),
    "Unseeded": ("seeding", "reset(seed=20001) twice, and the same actions: observations differ"),
}


@pytest.mark.parametrize(("name", "expected"), BROKEN.items(), ids=BROKEN)
def test_fault_is_named_with_its_step_and_field(
    name: str, expected: tuple[str, str], tmp_path: Path
) -> None:
    """Each kind of fault fails one check, which names the step and the wrong value."""
    check, detail = expected

    result = probed(name, tmp_path)

    assert [check] == [f.check for f in result.values() if f.status is FindingStatus.FAIL]
    assert detail in result[check].detail


SUSPECT = {
    "Endless": ("episodes", "none ended in 1,000 steps, and no time limit cuts them"),
    "Constant": ("seeding", "another seed changes nothing in 10 steps"),
    "Ageing": (
        "resume",
        f"{STARTS_AGAIN}: the observation after step 3 differs when its episode is replayed",
    ),
    "WrongDtype": ("observations", "reset: observation has dtype float64, declared is float32"),
}


@pytest.mark.parametrize(("name", "expected"), SUSPECT.items(), ids=SUSPECT)
def test_a_suspicious_environment_is_a_warning(
    name: str, expected: tuple[str, str], tmp_path: Path
) -> None:
    """A property that may be intended gives a warning and no failure."""
    check, detail = expected

    result = probed(name, tmp_path)

    assert [check] == [f.check for f in result.values() if f.status is not FindingStatus.OK]
    assert detail == result[check].detail


@pytest.mark.parametrize("name", ["Good", "Masked"])
def test_good_environment_passes_every_check(name: str, tmp_path: Path) -> None:
    """A correct environment passes every check, with and without masked actions."""
    result = probed(name, tmp_path)

    assert list(result) == [
        *("make", "spaces", "reset and step", "episodes", "speed", "close", "seeding", "resume"),
    ]
    assert {FindingStatus.OK} == {finding.status for finding in result.values()}


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork processes from a warm process, so that they import nothing again."""
    warm_up(monkeypatch, local)


@pytest.fixture(scope="module")
def examined() -> tuple[list[Finding], list[Any]]:
    """The findings about a good environment, and the agents and algorithms tried on it."""
    parts = []

    def record_candidates(group: str, folder: Workspace) -> Any:
        parts.append(candidates(group, folder))
        return parts[-1]

    with pytest.MonkeyPatch.context() as monkeypatch:
        warm_up(monkeypatch, local)
        monkeypatch.setattr(environment, "candidates", record_candidates)
        findings = examine_environment("faulty_environments:faulty/Good-v0", study(HERE))
    return findings, parts


def test_compatible_algorithms_are_listed(
    examined: tuple[list[Finding], list[Any]],
) -> None:
    """The algorithms that can train on a good environment are listed by agent."""
    findings, _ = examined

    assert {FindingStatus.OK} == {finding.status for finding in findings}
    assert "agent=mlp: a2c, ars, dqn, ppo, qrdqn, trpo;" in findings[-1].detail


DEADLY = {
    "Segfault": "crashes: step 3 ended the process by SIGSEGV (File ",
    "Exits": "exits: step 3 ended the process with code 0 (the licence server said no)",
    "Hangs": "hangs: step 3 did not end within 1 s, and the process was killed",
}


@pytest.mark.parametrize(("name", "detail"), DEADLY.items(), ids=DEADLY)
@pytest.mark.usefixtures("warm")
def test_the_death_of_the_probe_is_a_finding(
    name: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash, an exit and a hang of the probe are reported with the step."""
    monkeypatch.setattr(environment, "HANG_LIMIT", 1.0)
    start = time.monotonic()

    findings = examine_environment(f"faulty_environments:faulty/{name}-v0", study(HERE))

    assert (FindingStatus.FAIL, "process") == (findings[-1].status, findings[-1].check)
    assert detail in findings[-1].detail
    assert time.monotonic() - start < 30


@pytest.mark.usefixtures("warm")
def test_misspelt_name_is_corrected() -> None:
    """A misspelt name of a configured environment gets a suggestion."""
    (finding,) = examine_environment("catpole", study(HERE))

    assert finding.detail.endswith("did you mean 'cartpole'?")


@pytest.mark.parametrize("name", ["a b", "x'; rm -rf", "${oc.env:HOME}", "", "a=b,c=d"])
def test_nonsense_name_is_a_configuration_error(name: str) -> None:
    """A name that cannot be an id is refused."""
    with pytest.raises(ConfigError):
        examine_environment(name, study(HERE))


@pytest.mark.usefixtures("warm")
def test_an_environment_of_the_workspace_is_found(
    tmp_path: Path, parts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The YAML file and the module of an environment are found in the workspace."""
    (tmp_path / "conf" / "environment").mkdir(parents=True)
    (tmp_path / "conf" / "environment" / "mine.yaml").write_text(
        "defaults: [gymnasium, _self_]\nid: faulty/Good-v0\nname: Mine\nimports: [faulty_environments]\n",
    )
    source = (HERE / "faulty_environments.py").read_text()
    (tmp_path / "faulty_environments.py").write_text(source)

    monkeypatch.setattr(
        environment, "candidates", lambda group, _: parts[("agent", "algorithm").index(group)]
    )

    assert ok("make", "Mine") == examine_environment("mine", study(tmp_path))[0]


@pytest.fixture(scope="module")
def parts(examined: tuple[list[Finding], list[Any]]) -> list[Any]:
    """Every agent and every algorithm."""
    return examined[1]


def test_algorithms_are_listed_for_agents_that_read_the_observations(parts: list[Any]) -> None:
    """Only agents that read dictionaries are listed for a dictionary of observations."""
    detail = list_compatible(EnvironmentSpaces(("Dict",), "Box", 1, masked=False), *parts).detail

    assert detail.startswith("compatible: agent=multi_input: a2c, ")


def test_actions_that_no_algorithm_supports_are_a_warning(parts: list[Any]) -> None:
    """An action space that no algorithm supports gives a warning."""
    finding = list_compatible(EnvironmentSpaces(("Box",), "Text", 1, masked=False), *parts)

    assert finding.status is FindingStatus.WARN


def test_maskable_ppo_needs_masks(parts: list[Any]) -> None:
    """MaskablePPO is listed only for environments with action masks."""
    without_masks, with_masks = (
        list_compatible(EnvironmentSpaces(("Box",), "Discrete", 1, masked=masked), *parts).detail
        for masked in (False, True)
    )

    assert ("maskable_ppo" in without_masks, "maskable_ppo" in with_masks) == (False, True)


@pytest.mark.parametrize(
    ("space", "value", "detail"),
    [
        (gymnasium.spaces.Discrete(3), 3, "it is 3, outside Discrete(3)"),
        (gymnasium.spaces.Discrete(3), 2, None),
        (gymnasium.spaces.Box(0, 1, ()), np.float32(2), "it is 2.0, outside 0.0 … 1.0"),
        (gymnasium.spaces.Box(0, 1, (2, 2)), np.eye(2, dtype=np.float32), None),
        (
            gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)]),
            (0, 7),
            "it[1] is 7, outside Discrete(2)",
        ),
        (gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)]), 0, "it is not a tuple of 1"),
    ],
)
def test_contradiction_names_the_field(space: Any, value: Any, detail: str | None) -> None:
    """In nested spaces, the contradiction names the wrong value."""
    result = contradiction(value, space, "it")

    assert detail == (result and result.detail)


def test_comparison_finds_the_first_difference() -> None:
    """The first difference between two trajectories is named by step and field."""
    first = [(np.zeros(2),), (np.zeros(2), 1.0, False, False), (np.ones(2), 1.0, True, False)]
    second = [(np.zeros(2),), (np.zeros(2), 1.0, False, False), (np.ones(2), 2.0, True, False)]

    assert environment_probe.first_difference(first, first) is None
    assert environment_probe.first_difference(first, second) == "rewards differ at step 1"


def test_this_installation_is_sound() -> None:
    """On the machine of the tests, no check of the installation fails."""
    assert [f for f in check_installation() if f.status is FindingStatus.FAIL] == []


def test_versions_are_compared_with_the_required_ranges() -> None:
    """Missing and unsuitable packages fail with an install command; extras are not required."""
    required = [
        Requirement(r) for r in ("torch>=2.8", "typer>=1", "Py_Yaml>=6", "mujoco; extra=='x'")
    ]
    installed = {"torch": "2.13.0+cpu", "typer": "0.29.2"}

    assert check_requirements(required, installed) == [
        ok("packages", "torch 2.13.0+cpu"),
        fail("packages", "typer 0.29.2, rlexp needs >=1", "pip install 'typer>=1'"),
        fail("packages", "Py_Yaml is not installed", "pip install 'Py_Yaml>=6'"),
    ]


def test_every_extra_for_users_is_installed_or_offered() -> None:
    """Doctor names each extra of rlexp, with the command that installs those that are missing."""
    texts = (
        *(
            "numpy>=2",
            "gbrl>=1; extra=='gbrl'",
            "wandb>=1; extra=='wandb'",
            "mcp>=2; extra=='mcp'",
        ),
        "ruff; extra=='dev'",
    )
    required = [Requirement(text) for text in texts]
    detail = check_extras(required, {"numpy": "2.0", "mcp": "2.3"}).detail
    present, _, absent = detail.partition("; not installed: ")
    assert "mcp" in present.replace(",", "").split()
    installable, _, others = absent.partition("; not installed, and large or for few platforms: ")
    assert re.search(r"\(pip install .*'rlexp\[(.+,)?wandb(,.+)?\]'\)", installable)
    assert "gbrl" not in installable
    assert "gbrl" in others
    assert "dev" not in detail
    (extras,) = (f for f in check_installation() if f.check == "extras")
    for extra in metadata("rlexp").get_all("Provides-Extra", []):
        assert (extra in re.findall(r"[\w-]+", extras.detail)) == (extra not in NOT_FOR_USERS)


@pytest.mark.parametrize(
    ("installed", "names"),
    [
        ({"pygame": "2.6.1", "pygame-ce": "2.5.8"}, ["pygame 2.6.1 and pygame-ce 2.5.8"]),
        ({"pygame-ce": "2.5.8"}, []),
        ({"hydra-core": "1.3.8", "omegaconf": "2.4.0"}, ["hydra-core 1.3.8 and omegaconf 2.4.0"]),
        ({"hydra-core": "1.3.8", "omegaconf": "2.3.1"}, []),
        ({"gymnax": "1.0.1", "gymnasium": "1.4.0"}, ["gymnax 1.0.1 and gymnasium 1.4.0"]),
        ({"gymnax": "0.0.9", "gymnasium": "1.4.0"}, []),
        ({"rliable": "1.2.0", "pandas": "3.0.0"}, ["rliable 1.2.0 and pandas 3.0.0"]),
        ({"rliable": "1.2.0", "pandas": "not a version"}, []),
    ],
)
def test_incompatible_packages_are_named(installed: dict[str, str], names: list[str]) -> None:
    """A pair of packages is named only if both are installed in incompatible versions."""
    assert names == [finding.detail.partition(":")[0] for finding in check_pairs(installed)]


def test_old_python_fails() -> None:
    """A Python version outside the range of the package metadata fails."""
    assert check_python("3.10.1", ">=3.11").status is FindingStatus.FAIL
    assert check_python("3.11.7", ">=3.11").status is FindingStatus.OK


def test_the_quota_of_a_container_is_reported(tmp_path: Path) -> None:
    """A container that allows fewer cores than are visible gives a warning with fewer workers."""
    (tmp_path / "cpu.max").write_text("150000 100000\n")

    finding = check_cores(4, cpu_quota(tmp_path / "cpu.max"))

    assert (FindingStatus.WARN, "rlexp run … executor.workers=1") == (finding.status, finding.fix)


@pytest.mark.parametrize("content", ["max 100000\n", "", None])
def test_no_quota_is_no_warning(content: str | None, tmp_path: Path) -> None:
    """Without a quota in a control group, there is no warning."""
    if content is not None:
        (tmp_path / "cpu.max").write_text(content)

    assert check_cores(4, cpu_quota(tmp_path / "cpu.max")).status is FindingStatus.OK


def test_thread_variables_are_reported() -> None:
    """The finding names each thread variable that is set."""
    (finding,) = check_threads({"OMP_NUM_THREADS": "4"})

    assert finding.detail.startswith("OMP_NUM_THREADS=4 set")


def test_the_disk_of_the_runs_folder_is_checked(tmp_path: Path) -> None:
    """A missing folder is not created; its nearest existing parent is checked."""
    findings = check_disk(tmp_path / "study" / "runs")

    assert [FindingStatus.OK, FindingStatus.OK] == [finding.status for finding in findings]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "status"), [(10**7, FindingStatus.FAIL), (10**9, FindingStatus.WARN)]
)
def test_a_full_disk_is_reported(
    free: int, status: FindingStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little free space gives a warning, and almost none gives a failure."""
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    assert status == check_disk(tmp_path)[0].status


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that refuses everybody")
def test_unwritable_folder_fails() -> None:
    """A folder that cannot be written to fails the check."""
    assert [FindingStatus.FAIL] == [finding.status for finding in check_disk(Path("/proc/runs"))]


def test_lock_that_does_not_lock_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that grants a lock twice fails the check."""
    monkeypatch.setattr(machine, "is_held", lambda _: False)

    assert check_lock(tmp_path).status is FindingStatus.FAIL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("gpus", "torch", "status"),
    [
        ([], "2.13.0+cpu", FindingStatus.OK),
        (["H200"], "2.13.0", FindingStatus.OK),
        (["H200"], "2.13.0+cpu", FindingStatus.WARN),
    ],
)
def test_a_gpu_needs_torch_with_cuda(gpus: list[str], torch: str, status: FindingStatus) -> None:
    """An accelerator with a torch that is built without CUDA gives a warning."""
    assert status == check_gpu(gpus, torch).status


def test_doctor_says_what_can_outlive_a_run(tmp_path: Path) -> None:
    """The finding names what the kernel cannot end: more on a system without its help."""
    assert FindingStatus.WARN == check_processes(by_kernel=False).status
    findings = {f.check: f for f in check_machine(tmp_path, tmp_path / "runs")}
    assert FindingStatus.OK == findings["processes"].status
    assert "only kill -9 of the server and the run's guard" in findings["processes"].detail


def test_missing_git_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git there is a warning, because records will lack the commit."""
    monkeypatch.setenv("PATH", str(tmp_path))

    findings = {f.check: f.status for f in check_machine(tmp_path, tmp_path / "runs")}

    assert FindingStatus.WARN == findings["git"]


@pytest.fixture
def diagnosed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """The exit code and the output of the command for given findings."""

    def run(*findings: Finding, as_json: bool = False) -> tuple[int, str]:
        monkeypatch.setattr(command, "check_installation", lambda: list(findings))
        monkeypatch.setattr(command, "check_machine", lambda *_: [])
        printed = rlexp(tmp_path, "doctor", *(["--json"] if as_json else []))
        return printed.code, printed.out

    return run


def test_a_failure_is_exit_code_3(diagnosed: Callable[..., tuple[int, str]]) -> None:
    """A failed check ends with code 3, and each problem has its remedy."""
    code, out = diagnosed(ok("a", "fine"), warn("b", "odd", "look"), fail("c", "bad", "mend it"))

    assert code == 3
    assert out.splitlines() == [
        "ok    a: fine",
        "warn  b: odd",
        "      → look",
        "fail  c: bad",
        "      → mend it",
        "1 of 3 checks failed",
    ]


def test_a_warning_is_exit_code_0(diagnosed: Callable[..., tuple[int, str]]) -> None:
    """A warning does not change the exit code."""
    code, out = diagnosed(ok("a", "fine"), warn("b", "odd", "look"))

    assert (0, "0 errors, 1 warning") == (code, out.splitlines()[-1])


def test_json_contains_every_finding(diagnosed: Callable[..., tuple[int, str]]) -> None:
    """The JSON output holds the same findings and nothing else."""
    code, out = diagnosed(fail("c", "bad\x1b[2J", "mend it"), as_json=True)

    expected = [{"status": "fail", "check": "c", "detail": "bad\x1b[2J", "fix": "mend it"}]
    assert (3, expected) == (code, json.loads(out)["findings"])


def test_control_characters_of_environments_are_escaped(
    diagnosed: Callable[..., tuple[int, str]],
) -> None:
    """Control characters in an environment's messages do not reach the terminal."""
    _, out = diagnosed(fail("c", "bad\x1b[2J\nok    d: [bold]fine", "mend"))

    assert out.splitlines()[0] == "fail  c: bad�[2J�ok    d: [bold]fine"


def test_environment_without_an_id_is_refused() -> None:
    """The option `gymnasium` is refused without an id."""
    with pytest.raises(ConfigError, match=r"environment\.id has no value"):
        examine_environment("gymnasium", study(HERE))


def test_doctor_needs_no_heavy_import(tmp_path: Path) -> None:
    """The checks of the machine import neither torch nor stable-baselines3."""
    program = (
        "import sys; sys.argv = ['rlexp', 'doctor', '--json']\n"
        "from rlexp.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'stable_baselines3', 'gymnasium'} & set(sys.modules)\n"
    )

    process = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)

    assert process.returncode == 0
