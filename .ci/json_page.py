"""Prints docs/reference/json.md: the documents that commands write with `--json`, and the codes of errors.

`.venv/bin/python .ci/json_page.py > docs/reference/json.md` renews the page.
"""

from collections.abc import Iterator

from rlexp.app.commands.setup.schemas import DocumentSchema, list_schemas
from rlexp.cli.setup.schemas import field_rows
from rlexp.errors import CODES

INTRODUCTION = """\
# JSON

Every command takes `--json`. Standard output then carries one JSON document and nothing else;
progress and remarks go to standard error. Only `rlexp status --watch` and `rlexp worker` write
several, one a line. A document names its schema and the version of it:

```json
{"schema": {"name": "run-outcome", "version": 1}, "…": "…"}
```

- The version grows when a field is removed, renamed or means something else. New fields may be added
  within a version.
- A floating-point number that JSON cannot hold (infinity, NaN) is `null`.
- `rlexp config schema` lists the documents, `rlexp config schema run` shows the fields of what a
  command writes, and `rlexp config schema run --json` writes the JSON Schemas (dialect 2020-12).

This page is written by `.ci/json_page.py` from the program.

## Errors

A command that has no result writes a document of the schema `error`, on one line. Standard error and
the exit code are the same as without `--json`. `code` is a stable name:

| code | meaning |
|---|---|
"""


def page() -> Iterator[str]:
    """The parts of the page."""
    yield INTRODUCTION
    for code, meaning in CODES.items():
        yield f"| `{code}` | {meaning} |\n"
    yield "\n## Documents\n"
    for schema in list_schemas().rows:
        yield from section(schema)


def section(schema: DocumentSchema) -> Iterator[str]:
    """A document and its fields."""
    yield f"\n### `{schema.name}`\n\nVersion {schema.version}. {schema.description}\n\n"
    yield "| field | type | meaning |\n|---|---|---|\n"
    for row in field_rows(schema.json_schema):
        if not row.field.startswith("schema"):
            yield f"| `{row.field}` | {row.type} | {row.description} |\n"


if __name__ == "__main__":
    print("".join(page()), end="")
