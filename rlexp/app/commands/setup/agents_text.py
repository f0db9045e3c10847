"""The file AGENTS.md that `rlexp init --agents` writes: how a program works in a workspace."""

BEGIN = "<!-- rlexp: begin -->"
END = "<!-- rlexp: end -->"
"""The marks around the section, so that it can be told from other text in the file."""
TEXT = """\
# rlexp in this workspace

For language models and scripts that train and judge reinforcement-learning configurations here. Every
command below is executed by a test of rlexp.

## Rules

1. **Never choose by test scores.** Try things with `phase=tuning`. Use the test phase, which is the default of
   `rlexp run`, only for configurations that you have decided on. Each configuration whose test scores are seen is
   counted as a look, and the count is printed and reported; it cannot be taken back.
2. **Report what the tool says.** Give the verdict with its number of runs and its test. An undecided pair is
   undecided: name the smallest difference that its seeds could find. Do not repeat it with other seeds until you like
   the answer.
3. **Failed and missing runs belong to the result.** Name them. A run that failed has no score.
4. **Remove nothing.** `rlexp rm` and `rlexp gc` are for people, and so is everything under `runs/`: no file there is
   edited by hand. `rlexp verify` notices it.
5. **Do not grant yourself permission.** Where a command asks for `--allow-import PACKAGE`, code that a file names would
   be executed. Ask the user, who reads the code first.

## Try

Look up the names of settings and never guess them, check the environment, and see the plan before anything is trained:

```console
$ rlexp config list environment --json
$ rlexp config search learning_rate --json
$ rlexp doctor --environment corridor --json
$ rlexp run environment=corridor phase=tuning seeds.tuning=3 budget.steps=5000 experiment=try --dry-run --json
```

The last document (`run-plan`) holds the number of runs, the expected seconds and what is wrong with the plan. Then train.
Several values separated by commas are compared; the same command again trains only what is missing:

```console
$ rlexp run environment=corridor algorithm=ppo,a2c phase=tuning seeds.tuning=3 budget.steps=5000 experiment=try --quiet --json
$ rlexp compare try --phase tuning --json
$ rlexp ls try --where state=failed --json
```

For many values, a sweep tunes on tuning seeds and tests its winner once (`rlexp sweep --help`).

## Decide, then test

Ask how many seeds an effect needs (in standard deviations of the scores), train both labels on test seeds once, and judge:

```console
$ rlexp power --effect 1 --json
$ rlexp run environment=corridor algorithm=ppo,a2c seeds.test=5 budget.steps=5000 experiment=final --quiet --json
$ rlexp compare final --json
$ rlexp report final --json
$ rlexp verify final --json
```

`card.text` of a comparison is the answer in one sentence, `card.basis` its test, and `card.looks` the count of looks.

To improve step by step, do not keep what looks better on a few seeds. Begin a stream once, and propose each candidate to it;
it is kept only if the evidence suffices, with errors controlled over all candidates:

```console
$ rlexp propose loop --begin environment=corridor budget.steps=5000 --json
$ rlexp propose loop --json
```

`rlexp propose loop algorithm.learning_rate=0.001 --json` judges a candidate. `rlexp propose loop --final` closes the stream and
uses test seeds: ask the user first.

To find out whether a change of code made learning worse, write a baseline before the change and judge after it:

```console
$ rlexp gate --write baseline.json environment=corridor budget.steps=5000 seeds.tuning=10 --margin 20 --quiet
$ rlexp gate baseline.json --budget 30 --json
```

## Read results

- With `--json`, standard output carries one document and nothing else; it names its schema and version. Progress
  and remarks go to standard error.
- An error is a document of the schema `error` with a stable `code`, the `allowed` values and the `command` to type next.
- `rlexp config schema run --json` gives the JSON Schema of what a command writes.

```console
$ rlexp config schema run --json
$ rlexp show final --json
$ rlexp status --json
```

| exit code | meaning |
|---|---|
| 0 | everything that was asked for is complete |
| 1 | something failed or is missing; `verify` has found a record that is not what was written |
| 2 | the command or the configuration is wrong |
| 3 | a check failed: of `doctor`, or of `--strict` |
| 4 | `rlexp gate`: worse than the baseline by more than the margin |
| 5 | `rlexp gate`: undecided within its time; `rlexp propose`: undecided with its seeds |
| 6 | `rlexp propose`: discarded |
| 69 | a tracker's service does not answer |
| 70 | the processes that execute runs could not be started |
| 75 | stopped by a scheduler before its time limit: give the same command again |
| 130, 143 | interrupted: give the same command again |

## Long runs

Every command may be killed at any moment. The same command again continues from the last checkpoint, with the same
final numbers. `rlexp status` shows the progress from anywhere, and `rlexp cancel EXPERIMENT` stops runs; they can go on.
Where your calls have a time limit, start `rlexp run` in the background, and look with `rlexp status EXPERIMENT --json`.

By the Model Context Protocol, `rlexp mcp` (from the extra `mcp`) offers list, show, status, search, run, cancel, propose, compare and
report, with the same documents. It never removes anything.
"""
