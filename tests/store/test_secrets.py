"""Secrets are recognised by their names and formats, and masked in everything that is written."""

import base64
import json
import string
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.store.secret_names import is_secret_name
from rlexp.store.secrets import (
    MASK,
    mask,
    mask_all,
    mask_code,
    mask_known,
    secret_values,
    without_secrets,
)

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "apikey",
        "api-key",
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "token",
        "db_password",
        "PASSWD",
        "google_credentials",
        "SENTRY_DSN",
        "A_B_C_D_E_F_G_H_API_KEY",
    ],
)
def test_secret_names(name: str) -> None:
    """Names of secrets are recognised in any spelling."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["num_tokens", "monkey", "keys", "key", "PATH", "learning_rate", "token_count", "", "bypass"],
)
def test_names_that_resemble_secret_names(name: str) -> None:
    """Names of hyperparameters and paths are not secret."""
    assert not is_secret_name(name)


def test_secret_values_are_those_of_secret_names() -> None:
    """Values of secret names are secret, except very short ones."""
    environment = {"API_KEY": SECRET, "TOKEN": "1", "HOME": "/home/someone", "X_TOKEN": "abcdef"}
    known = secret_values(environment)
    assert {SECRET, "abcdef"} <= known
    assert not known & {"1", "/home/someone"}


SECRET_VARIABLES = (
    *("GITHUB_PAT", "NGROK_AUTHTOKEN", "MINIO_SECRETKEY", "SSH_PASSPHRASE", "SLACK_WEBHOOK_URL"),
    *("API_KEYS", "TOKENS", "GITHUB_TOKEN_2", "DB_PASS", "SSHPASS", "ACCESSKEY", "JWT"),
    *("AZURE_STORAGE_CONNECTION_STRING", "AZURE_CLIENT_SECRET", "DB_PASSWORD", "PGPASSWORD"),
    *("AWS_SECRET_ACCESS_KEY", "OPENAI_KEY", "WANDB_API_KEY", "HF_TOKEN", "TOKEN2", "MYSQL_PWD"),
    *("API_KEY_PROD", "apiKey", "accessToken", "SENTRY_DSN", "GOOGLE_CREDENTIALS", "SSH_KEY"),
)
ORDINARY_VARIABLES = (
    *("MONKEY", "KEYBOARD", "TOKENIZERS_PARALLELISM", "PASSENGER_COUNT", "max_tokens", "n_keys"),
    *(
        "token_count",
        "keys",
        "passes",
        "COMPASS",
        "SSH_AUTH_SOCK",
        "PATH",
        "PWD",
        "HOME",
        "bypass",
    ),
    *("PASSWORD_STORE_DIR", "TOKEN_FILE", "PUBLIC_KEY", "pad_token", "KEY_COUNT", "SIGNAL"),
    *("AUTHORS", "TURKEY", "PATTERN", "DATABASE_URL", "CONNECTION", "STRING", "COMPAT"),
)


@pytest.mark.parametrize("name", SECRET_VARIABLES)
def test_the_value_of_a_secret_variable_is_masked(name: str) -> None:
    """The value of a variable with such a name is masked in any text."""
    assert f"it is {MASK}!" == mask_known(f"it is {SECRET}!", secret_values({name: SECRET}))


@pytest.mark.parametrize("name", ORDINARY_VARIABLES)
def test_the_value_of_an_ordinary_variable_is_kept(name: str) -> None:
    """The value of a variable with such a name is kept, in a text and behind its name."""
    assert frozenset() == secret_values({name: SECRET})
    for text in (f"it is {SECRET}!", f"{name}={SECRET}", f'{{"{name}": "{SECRET}"}}'):
        assert text == mask(text)
    assert {name: SECRET} == mask_all({name: SECRET})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("TOKEN", "1"), ("API_KEY", "true"), ("DB_PASS", ""), ("JWT", "disabled")),
        *(("SORT_KEY", "is_success"), ("KEY", "episode reward"), ("SSL_KEY", "/etc/ssl/a.pem")),
    ],
)
def test_short_values_and_settings_of_variables_are_kept(name: str, value: str) -> None:
    """Short values, and words under a name that says little, stay readable in every text."""
    assert frozenset() == secret_values({name: value})


@pytest.mark.parametrize("value", ["pa'ss\"w\\rd\n1", "grün+/? &=%", "p4ss-word", "a/b+c=d"])
def test_every_form_of_a_secret_is_masked(value: str) -> None:
    """A secret is masked as `repr`, JSON, URLs and base64 write it, and nothing of it is left."""
    known, content = secret_values({"DEMO_TOKEN": value}), value.encode()
    forms = [
        *(value, repr(value)[1:-1], repr(f"\"'{value}")[4:-1], repr(content)[2:-1]),
        *(json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]),
        *(quote(value), quote(value, safe=""), quote_plus(value)),
    ]
    for encoded in map(base64.b64encode, (content, content + b"\n")):
        forms += [encoded.decode(), encoded.decode().rstrip("=")]
    forms += [base64.urlsafe_b64encode(content).decode()]
    for form in forms:
        assert f"<{MASK}>" == mask_known(f"<{form}>", known), form


def test_each_of_several_keys_is_masked() -> None:
    """Of a variable that lists several keys, each one is masked by itself."""
    assert f"used {MASK}" == mask_known(
        "used second-2", secret_values({"API_KEYS": "first-1,second-2"})
    )


SETTINGS = (
    *("key: is_success", "key=is_success", "sort_key: episode reward", "max_tokens=1000"),
    *("environment.wrappers.0.arguments.key=is_success", "key: 5", "pass: first", "auth=basic"),
    *("+environment.wrappers=[{arguments: {name: success, key: is_success, take: largest}}]",),
    *("api_key=${oc.env:API_KEY}", "token: null", "password=None", '"key": "desired_goal"'),
    *("see https://host:8080/a@b", "a basic classic-control task", "keys: [a, b]"),
)


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_are_kept(text: str) -> None:
    """A setting stays as it is, so that the recorded command can be given again."""
    assert text == mask(text)
    assert (text,) == without_secrets([text])


@pytest.mark.parametrize("key", ["key", "sort_key", "pass", "keys", "tokens", "pat"])
def test_settings_in_documents_are_kept(key: str) -> None:
    """A word under a name that a setting may have stays as it is in a document."""
    assert {key: "is_success"} == mask_all({key: "is_success"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key=9f8a7b6c5d4e3f2a1b0c", f"key={MASK}"),
        ("url: https://host/?token=abc&x=1", f"url: https://host/?token={MASK}&x=1"),
        ("overrides: [a.api_key=abc, x]", f"overrides: [a.api_key={MASK}, x]"),
        (r'"{\"api_key\": \"a b\", \"x\": 2}"', rf'"{{\"api_key\": \"{MASK}\", \"x\": 2}}"'),
        (r'{"password": "a\"b", "x": 1}', f'{{"password": "{MASK}", "x": 1}}'),
        ("AccountName=me;AccountKey=abc;", f"AccountName=me;AccountKey={MASK};"),
        (f"see ghp_{'a1' * 18} there", f"see {MASK} there"),
        (f"AKIA{'A1' * 8}", MASK),
        (
            "https://hooks.slack.com/services/T0/B0/xyzxyz",
            f"https://hooks.slack.com/services/{MASK}",
        ),
    ],
)
def test_secrets_in_texts_are_masked(text: str, expected: str) -> None:
    """Random characters, nested assignments, escaped JSON and well-known tokens are masked."""
    assert expected == mask(text)


def test_lists_under_a_secret_name_are_masked() -> None:
    """Every text of a list under a secret name is masked."""
    assert {"passwords": [MASK, [MASK]]} == mask_all({"passwords": ["abc", ("def",)]})


def test_a_line_is_masked_fast() -> None:
    """A line of output costs less than a millisecond, with the variables read again for it."""
    environment = {f"SETTING_{n}": "x" * 100 for n in range(200)}
    environment |= {f"A{n}_TOKEN": f"{SECRET}+/{n}" for n in range(20)}
    line = "run 12/30: test seed 4 completed with score 201.3 (loss=0.3, key: is_success)"
    mask(line, secret_values(environment))
    begin = time.process_time()
    for _ in range(200):
        mask(line, secret_values(environment))
    assert time.process_time() - begin < 0.2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api_key=abc rest", f"api_key={MASK} rest"),
        ("API_KEY: abc", f"API_KEY: {MASK}"),
        ("tracker.api_key=abc", f"tracker.api_key={MASK}"),
        ("--token=abc&x=1", f"--token={MASK}&x=1"),
        ('{"password": "a b, c"}', f'{{"password": "{MASK}"}}'),
        ("password='it has spaces'", f"password='{MASK}'"),
        ("https://me:pw@host/x", f"https://{MASK}@host/x"),
        ("git+ssh://token@host", f"git+ssh://{MASK}@host"),
        ("num_tokens=5", "num_tokens=5"),
        ("learning_rate=0.1", "learning_rate=0.1"),
        ("https://host/a@b", "https://host/a@b"),
        ("someone@host", "someone@host"),
        ("monkey=5", "monkey=5"),
        ("", ""),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, expected: str) -> None:
    """A secret value in a text is masked, and the other parts stay readable."""
    assert expected == mask(text)


@given(st.text(), st.text())
def test_a_secret_is_masked_inside_any_text(before: str, after: str) -> None:
    """A known secret is masked inside any text."""
    assert SECRET not in mask(before + SECRET + after, frozenset({SECRET}))


def test_a_value_within_another_leaves_nothing_of_the_longer() -> None:
    """If one secret contains another, the longer one is masked completely."""
    assert MASK == mask("abcdef-ghi", frozenset({"abcdef", "abcdef-ghi"}))


@given(st.text() | st.text("'\"\\ :=a{}$*").map("token={}".format))
def test_masking_again_changes_nothing(text: str) -> None:
    """Masking a masked text again leaves it unchanged."""
    assert mask(text) == mask(mask(text))


arguments = st.text(string.ascii_lowercase, max_size=8)
structures = st.recursive(
    arguments | st.integers() | st.none() | st.just(f"x {SECRET} y"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(arguments, inner, max_size=3),
)


@given(structures)
def test_no_depth_hides_a_secret(structure: Any) -> None:
    """Secrets are masked in structures of any depth, and the structure keeps its type."""
    masked = mask_all(structure, frozenset({SECRET}))
    assert SECRET not in repr(masked)
    assert type(structure) is type(masked)


def test_texts_under_a_secret_name_are_masked() -> None:
    """Any text under a secret name is masked; a number is left, because it may be a setting."""
    document = {"api_key": "abc", "max_token": 5, "list": [{"password": ""}], "pair": ("a", "b")}
    assert {
        "api_key": MASK,
        "max_token": 5,
        "list": [{"password": MASK}],
        "pair": ["a", "b"],
    } == mask_all(document)


@pytest.mark.parametrize("unit", ["a", "a-", "ab_", "key", "a://", "-", "key_", "x="])
def test_a_long_line_is_masked_fast(unit: str) -> None:
    """A line of 100,000 characters is masked in less than two seconds."""
    text = unit * (100_000 // len(unit))
    begin = time.process_time()
    mask(text)
    assert time.process_time() - begin < 2


def test_code_is_masked_only_where_a_literal_stands() -> None:
    """In code, only literals are masked; annotations and calls stay."""
    code = 'key: int = 3\ntoken = read()\nAPI_KEY = "abcdef123"\n"password": \'hunter22\',\n'
    expected = f'key: int = 3\ntoken = read()\nAPI_KEY = "{MASK}"\n"password": \'{MASK}\',\n'
    assert expected == mask_code(code)


@pytest.mark.parametrize(
    "text", ["Authorization: Bearer abcdefgh12345", "basic QWxhZGRpbjpvcGVu=="]
)
def test_authorization_headers_are_masked(text: str) -> None:
    """The credentials after `Bearer` or `basic` are masked."""
    assert mask(text).endswith(MASK)


@pytest.mark.parametrize("name", ["PGPASSWORD", "MYSQL_PWD"])
def test_names_of_database_passwords_are_secret(name: str) -> None:
    """Names of database passwords without an underscore are secret."""
    assert is_secret_name(name)


def test_the_working_folder_is_no_secret() -> None:
    """PWD is not secret, because it holds a path."""
    assert not is_secret_name("PWD")
