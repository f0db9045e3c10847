"""Secrets in many places: none of them reaches a file, the screen or a process's arguments."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until

PLACES = (
    *("DEMO_TOKEN", "WANDB_API_KEY", "LOGIN_SECRET", "DATABASE_PASSWORD", "PYTHON_API_TOKEN"),
    *("url in a variable", "remote login", "remote query", "changed code", "changed settings"),
    *("untracked settings", "untracked code", "secret file", "private key", "changed secret file"),
    *("storage login", "storage query", "typed", "configured", "echoed"),
)
SECRETS = {
    location: f"Hunter2/{number:02d}+{location[::-1]}".replace(" ", "")
    for number, location in enumerate(PLACES)
}
"""A secret for each place, with letters that addresses and JSON write differently."""
TINY = (
    *("algorithm.n_steps=64", "budget.steps=64", "budget.evaluation_every=null"),
    *("budget.final_episodes=2", "seeds.test=1"),
)
LEAKY = (
    *("run", "environment=gymnasium", "environment.id=leaky_environment:Leaky-v0", *TINY),
    "environment.arguments={login: '${oc.env:LOGIN_SECRET}'}",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudyFolder]:
    """A study in a git checkout, with secrets wherever people keep them."""
    with (
        new_study(tmp_path_factory.mktemp("study"), warm=True) as study,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in PLACES[:5]:
            patch.setenv(name, SECRETS[name])
        patch.setenv("SERVICE_URL", f"redis://me:{SECRETS['url in a variable']}@127.0.0.1/0")
        patch.setenv("PYTHONBREAKPOINT", f"x.{SECRETS['DEMO_TOKEN']}")
        write_checkout(study.folder)
        yield study


@pytest.fixture(scope="module")
def run_output(study: StudyFolder) -> str:
    """The output of a run of a leaky environment, and the arguments of its processes."""
    # A forked command has no arguments of its own in `/proc`.
    command = StudyFolder(study.folder).start(*LEAKY, "experiment=told")
    process_arguments: list[str] = []

    def ended() -> bool:
        process_arguments.extend(arguments(study, command))
        return command.poll() is not None

    wait_until(ended, 120)
    output, _ = command.communicate()
    assert 0 == command.returncode, output
    assert any("rlexp.executors.server" in words for words in process_arguments)
    return output + "".join(process_arguments)


@pytest.fixture(scope="module")
def error_output(study: StudyFolder) -> str:
    """The output of a run whose environment raises an error with a secret."""
    words = [*LEAKY[:-1], LEAKY[-1].replace("{", "{raises: true, ", 1), "experiment=raised"]
    code, output = study.give(*words)
    assert 1 == code, output
    return output


def write_checkout(folder: Path) -> None:
    """Write a git commit, and then uncommitted changes with secrets."""
    source = Path(__file__).with_name("leaky_environment.py")
    (folder / source.name).write_text(source.read_text())
    (folder / "code.py").write_text("API_KEY = None\n")
    (folder / "settings.yaml").write_text("password: none\n")
    (folder / ".env.shared").write_text("A_TOKEN=none\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x")
    login, query = SECRETS["remote login"], SECRETS["remote query"]
    git(
        folder, "remote", "add", "origin", f"https://me:{login}@example.org/x?access_token={query}"
    )
    (folder / "code.py").write_text(f'API_KEY = "{SECRETS["changed code"]}"\n')
    (folder / "settings.yaml").write_text(f"password: {SECRETS['changed settings']}\n")
    (folder / ".env.shared").write_text(f"A_TOKEN={SECRETS['changed secret file']}\n")
    (folder / "notes.yml").write_text(f"db:\n  api_key: {SECRETS['untracked settings']}\n")
    (folder / "notes.py").write_text(f"login(password='{SECRETS['untracked code']}')\n")
    (folder / ".env").write_text(f"X={SECRETS['secret file']}\n")
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRETS['private key']}\n-----END PRIVATE KEY-----\n"
    (folder / "notes.txt").write_text(key)


def git(folder: Path, *words: str) -> None:
    """Run a git command."""
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def leaks(text: str | bytes) -> list[str]:
    """The places whose secret is in a text."""
    content = text.encode() if isinstance(text, str) else text
    return [location for location, secret in SECRETS.items() if secret.encode() in content]


def leaking_files(study: StudyFolder) -> dict[str, list[str]]:
    """Files of rlexp that hold a secret, with the places of the secrets."""
    paths = [p for top in ("runs", "reports", "cache") for p in (study.folder / top).rglob("*")]
    leaks_by_file = {
        str(p.relative_to(study.folder)): leaks(p.read_bytes()) for p in paths if p.is_file()
    }
    return {name: places for name, places in leaks_by_file.items() if places}


def arguments(study: StudyFolder, command: subprocess.Popen[str]) -> Iterator[str]:
    """The arguments of every process that a command has started."""
    for process in study.processes():
        if process.pid != command.pid:
            try:
                yield " ".join(process.cmdline())
            except psutil.Error:
                continue


def check(study: StudyFolder, output: str) -> None:
    """Check that neither the output nor any file of rlexp holds a secret."""
    assert [] == leaks(output)
    assert {} == leaking_files(study)


def test_nothing_of_a_run_holds_a_secret(study: StudyFolder, run_output: str) -> None:
    """Neither files nor output nor process arguments of a run hold a secret."""
    check(study, run_output)
    (run,) = (study.folder / "runs" / "told").glob("ppo*")
    log = run / "attempts" / "1" / "log.txt"
    assert "DEMO_TOKEN is ****" in log.read_text()
    assert 0 == log.stat().st_mode & 0o077
    patch = (run / "attempts" / "1" / "diff.patch").read_text()
    assert {"code.py", "settings.yaml", "notes.yml"} <= set(patch.replace("b/", " ").split())
    assert ".env" not in patch


def test_nothing_of_a_failed_run_holds_a_secret(study: StudyFolder, error_output: str) -> None:
    """An error that names a secret is recorded and printed without it."""
    assert "login ******** failed" in error_output
    check(study, error_output)


@pytest.mark.usefixtures("run_output", "error_output")
def test_nothing_that_looks_at_a_run_tells_a_secret(study: StudyFolder) -> None:
    """No command that shows or plays a run prints or writes a secret."""
    for words in (
        ("status",),
        ("show", "told", "--provenance"),
        ("show", "told", "--config"),
        ("logs", "raised/ppo"),
        ("diff", "told/ppo", "raised/ppo"),
        ("report", "told", "raised", "--format", "html,json,md"),
        ("evaluate", "told/ppo", "--episodes", "2", "--allow-import", "leaky_environment"),
        ("config", "show", *LEAKY[1:]),
        ("resume",),
    ):
        code, output = study.give(*words)
        assert code in {0, 1}, output
        # What the environment itself prints during `evaluate` is not stored.
        check(study, "" if words[0] == "evaluate" else output)


@long
def test_passwords_of_databases_are_not_printed(study: StudyFolder) -> None:
    """A sweep whose database is away says so and prints no password."""
    login, query = SECRETS["storage login"].replace("/", "%2F"), SECRETS["storage query"]
    url = f"postgresql://me:{login}@127.0.0.1:9/x?sslpassword={query}"
    words = ("sweep", "tuner=random", "algorithm.n_epochs=choice(2, 3)", "sweep.trials=2", *TINY)
    seeds = ("seeds.tuning=1", "seeds.selection=0", "experiment=search")
    code, output = study.give(*words, *seeds, f"sweep.storage='{url}'")
    assert 0 == code, output
    assert "is not up to date" in output
    assert "1 override with a secret left out" in output
    assert [] == leaks(output.replace("%2F", "/"))
    check(study, output)


@pytest.mark.parametrize("command", ["run", "config"])
def test_typed_secrets_are_refused(study: StudyFolder, command: str) -> None:
    """A secret on the command line or in a file is refused without being repeated."""
    (study.folder / "conf" / "environment").mkdir(parents=True, exist_ok=True)
    (study.folder / "conf" / "environment" / "typed.yaml").write_text(
        "defaults: [gymnasium, _self_]\nid: CartPole-v1\n"
        f"arguments:\n  password: {SECRETS['configured']}\n"
    )
    first = ("run", "--dry-run") if command == "run" else ("config", "validate")
    for words in (
        (f"+environment.arguments.api_key='{SECRETS['typed']}'",),
        (f"+environment.arguments.x='see {SECRETS['DEMO_TOKEN']}'",),
        (f"+environment.arguments.x='https://me:{SECRETS['echoed']}@example.org'",),
        ("environment=typed",),
    ):
        code, output = study.give(*first, *words)
        assert 2 == code, output
        assert "holds a secret in plain text" in output
        assert "${oc.env:" in output
        check(study, output)
