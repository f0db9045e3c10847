"""The section of definitions: the statistics that a report uses, with their sources."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from inspect import getdoc

from rlexp.metrics import Metric, title_over
from rlexp.reports.analysis.estimates import is_capped
from rlexp.reports.analysis.held_out_episodes import has_contexts, has_measures, is_examined
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.setting_grids import setting_grids
from rlexp.reports.drawing.blocks import SectionContent, Table, TableColumn, Text
from rlexp.stats.aggregate import aggregate_of
from rlexp.text import join_names

DefinitionWords = tuple[str, str, str]


def _defined(name: str, meaning: str, source: str) -> DefinitionWords:
    return name, meaning, source


GAP = _defined(
    "generalisation gap",
    "Mean return of the final policy on training contexts minus that on held-out contexts, per "
    "run, averaged over runs.",
    "Kirk et al. 2023, A Survey of Zero-shot Generalisation in Deep Reinforcement Learning",
)
OF_CONTEXTS = (
    _defined(
        "worst case",
        "The smallest of a run's mean returns per context, averaged over runs. The contexts are "
        "the uncertainty set.",
        "Morimoto and Doya 2005, Robust Reinforcement Learning",
    ),
    _defined(
        "CVaR",
        "Mean of the worst share α of a run's mean returns per context, averaged over runs. All "
        "contexts have the same weight, and the last one counts in part.",
        "Rockafellar and Uryasev 2000, Optimization of Conditional Value-at-Risk; of discrete "
        "distributions 2002, Conditional Value-at-Risk for General Loss Distributions",
    ),
    _defined(
        "mastered",
        "The share of the contexts whose mean return reaches a threshold, averaged over runs.",
        "Romac et al. 2021, TeachMyAgent: a Benchmark for Automatic Curriculum Learning in Deep RL",
    ),
)
MEASURE = _defined(
    "measure of episodes",
    "Mean over the episodes of a run's final evaluation, averaged over runs.",
    "rlexp",
)


def context_definitions(report: ReportContext) -> Iterator[DefinitionWords]:
    """Definitions about contexts and measures that a report needs."""
    evidence, sections = report.evidence, report.sections
    if "generalisation" in sections:
        yield from (GAP,) if is_examined(evidence) else ()
        yield from OF_CONTEXTS if has_contexts(evidence) else ()
    if "measures" in sections and has_measures(evidence):
        yield MEASURE


EIMER = (
    "Eimer, Lindauer and Raileanu 2023, Hyperparameters in Reinforcement Learning and How To Tune "
    "Them"
)

TUNING_DEFINITIONS = (
    (
        "incumbent",
        "The best trial so far among those run on all tuning seeds at the full budget.",
        EIMER,
    ),
    (
        "optimism",
        (
            "Mean tuning score of the winner minus its mean test score, with Welch's interval. It "
            "is positive on average, because the winner was chosen by its tuning score."
        ),
        EIMER,
    ),
    (
        "expected optimism",
        (
            "m σ²/n / √(τ² + σ²/n) for the best of K configurations on n tuning seeds, where m is "
            "the expected maximum of K standard normal variables, σ² the variance of the runs of "
            "one configuration, and τ² the variance of the true means."
        ),
        "winner's curse in the Gaussian model; rlexp",
    ),
    (
        "full-run equivalents",
        (
            "Environment steps of the search divided by those of a full run. A configuration "
            "counts at most once, for any number of tuning seeds."
        ),
        EIMER,
    ),
    (
        "PED-ANOVA",
        (
            "Pearson divergence between the density of each parameter among the best tenth of the "
            "trials and among all trials, as a share of the sum."
        ),
        (
            "Watanabe, Bansal and Hutter 2023, PED-ANOVA: Efficiently Quantifying Hyperparameter "
            "Importance in Arbitrary Subspaces"
        ),
    ),
    (
        "fANOVA",
        (
            "Variance of a random forest's prediction, averaged over all other parameters, as a "
            "share of the sum. Not reported where its R² on unseen trials is below 0.3."
        ),
        (
            "Hutter, Hoos and Leyton-Brown 2014, An Efficient Approach for Assessing "
            "Hyperparameter Importance"
        ),
    ),
)
"""Name, meaning and source of each."""

ADKINS = (
    "Adkins, Bowling and White 2024, A Method for Evaluating Hyperparameter Sensitivity in "
    "Reinforcement Learning"
)

SENSITIVITY_DEFINITIONS = (
    (
        "hyperparameter sensitivity",
        (
            "Φ = P − C. P is the mean over tasks of the score of the best setting of each task; C "
            "is the largest mean over tasks of a single setting that ran on all tasks."
        ),
        ADKINS,
    ),
    (
        "effective dimensionality",
        (
            "The smallest number of parameters that must be tuned per task, with the others as in "
            "the setting of C, to reach 95 % of P. Every subset is tried, on settings that ran on "
            "all tasks."
        ),
        ADKINS,
    ),
    (
        "interval of sensitivity",
        (
            "Estimate minus its bootstrap bias ± t · s, over resamples of whole runs within each "
            "setting and task, scaled by √(n/(n−1)), with T (n − 1) degrees of freedom for T tasks "
            "and the fewest runs n. The dimensionality has quantiles."
        ),
        "Davison and Hinkley 1997, Bootstrap Methods and Their Application",
    ),
)
"""Name, meaning and source of each."""


AGARWAL = (
    "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice"
)
CHAN = "Chan et al. 2020, Measuring the Reliability of Reinforcement Learning Algorithms"
EFRON = "Efron and Tibshirani 1993, An Introduction to the Bootstrap"


@dataclass(frozen=True, slots=True)
class Definition:
    """A statistic with its meaning and source; `used` tells whether a report needs it."""

    name: str
    meaning: str
    source: str
    used: Callable[[ReportContext], bool]


@dataclass(frozen=True, slots=True)
class DefinitionsSection:
    """Table of every statistic in the report."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        if not report.evidence.members:
            return None
        metrics = [
            (title_over(metric, len(report.evidence.tasks)), _words(metric), _source(metric))
            for metric in report.metrics.values()
        ]
        common = [(d.name, d.meaning, d.source) for d in DEFINITIONS if d.used(report)]
        settings = report.settings
        text = (
            f"Random draws are derived from seed {settings.seed}: {settings.repetitions:,} for "
            f"each aggregate and test, {settings.curve_repetitions:,} for each band. The same "
            "records give the same report."
        )
        table = Table(
            name="definitions",
            title="Definitions",
            columns=(
                TableColumn(title="statistic"),
                TableColumn(title="meaning"),
                TableColumn(title="source"),
            ),
            rows=(*metrics, *common, *context_definitions(report), *_of_settings(report)),
        )
        blocks = (Text(text=text), table)
        return SectionContent(name="definitions", title="Definitions", blocks=blocks, folded=True)


def _of_settings(report: ReportContext) -> Iterator[tuple[str, str, str]]:
    """Definitions about hyperparameters, where there is a sweep or a grid of settings."""
    if report.evidence.sweeps:
        yield from TUNING_DEFINITIONS
    if "sensitivity" in report.sections and setting_grids(report.evidence):
        yield from SENSITIVITY_DEFINITIONS


def _words(metric: Metric) -> str:
    """The first paragraph of a metric's docstring, and its settings."""
    paragraph = (getdoc(type(metric)) or metric.title).split("\n\n")[0].replace("`", "")
    names: list[str] = [f.name for f in fields(metric)] if is_dataclass(metric) else []
    values = [f"{name} = {getattr(metric, name)}" for name in names]
    settings = f" Here {join_names(values)}." if values else ""
    return f"{' '.join(paragraph.split())}{settings}"


def _source(metric: Metric) -> str | None:
    return AGARWAL if type(metric).__module__.startswith("rlexp.metrics.") else None


def _always(report: ReportContext) -> bool:
    return bool(report.evidence.members)


def _several_labels(report: ReportContext) -> bool:
    return len(report.evidence.labels) > 1


def _normalised(report: ReportContext) -> bool:
    several = len(report.evidence.tasks) > 1
    return several or any(is_capped(metric) for metric in report.metrics.values())


def _normalised_already(report: ReportContext) -> bool:
    return _normalised(report) and report.settings.normalisation == "none"


def _normalised_by_anchors(report: ReportContext) -> bool:
    return _normalised(report) and report.settings.normalisation != "none"


def _incomplete(report: ReportContext) -> bool:
    return any(member.score is None for member in report.evidence.members)


def _margin(report: ReportContext) -> bool:
    return _several_labels(report) and report.settings.margin is not None


def _method(name: str) -> Callable[[ReportContext], bool]:
    return lambda report: report.settings.interval == name


def _cut(name: str) -> Callable[[ReportContext], bool]:
    return lambda report: any(
        (aggregate := aggregate_of(metric)) is not None and aggregate.cut == name
        for metric in report.metrics.values()
    )


def _section(name: str) -> Callable[[ReportContext], bool]:
    return lambda report: name in report.sections


DEFINITIONS = (
    Definition(
        "normalised score",
        "(score − low) / (high − low), with the anchors of the task.",
        AGARWAL,
        _normalised_by_anchors,
    ),
    Definition(
        "normalised score, as recorded",
        "The recorded score itself: scores are taken as normalised already (normalisation=none).",
        "rlexp",
        _normalised_already,
    ),
    Definition(
        "cut of the IQM",
        "Exactly a quarter of the weight of all runs is cut at each end; the run at the cut counts "
        "in part. rliable cuts whole runs, ⌊N/4⌋ at each end; its value is noted where its digits "
        "differ.",
        "rlexp; whole runs: " + AGARWAL,
        _cut("exact"),
    ),
    Definition(
        "cut of the IQM",
        "⌊N/4⌋ whole runs are cut at each end, as in rliable, where all tasks have as many runs; "
        "else a quarter of the weight, the run at the cut in part.",
        AGARWAL,
        _cut("rliable"),
    ),
    Definition(
        "t interval",
        "Estimate ± t · s · √(n/(n−1)), where s is the standard deviation of the metric over "
        "resamples of the runs, drawn with replacement within each task, and t the quantile with "
        "Satterthwaite's degrees of freedom.",
        "t with bootstrap standard error; " + EFRON,
        _method("t"),
    ),
    Definition(
        "percentile interval",
        "Quantiles of the metric over resamples of the runs, drawn with replacement within each "
        "task.",
        AGARWAL,
        _method("percentile"),
    ),
    Definition(
        "basic interval",
        "Quantiles of the metric over resamples of the runs, mirrored at the estimate.",
        EFRON,
        _method("basic"),
    ),
    Definition(
        "BCa interval",
        "Quantiles of the metric over resamples of the runs, corrected for bias and skewness.",
        "Efron 1987, Better Bootstrap Confidence Intervals",
        _method("bca"),
    ),
    Definition(
        "ends of an interval",
        "Intervals are clipped to possible values: the declared bounds of returns, 0 and the cap "
        "of an optimality gap, the largest possible difference. Fewer than three runs have no "
        "interval.",
        "rlexp",
        _always,
    ),
    Definition(
        "expected coverage",
        "Share of the intervals of this method that contained the true value in simulations with "
        "as many runs and tasks, drawn from published scores. The coverage on other scores may be "
        "lower.",
        "simulation, tabled in rlexp",
        _always,
    ),
    Definition(
        "permutation test",
        "The share of relabellings of the runs within each task whose difference of the leading "
        "metric, divided by its standard error, is at least as large as the observed one. All "
        "relabellings are used where they are few, else random ones.",
        "Chung and Romano 2013, Exact and Asymptotically Robust Permutation Tests",
        _several_labels,
    ),
    Definition(
        "interval of a difference",
        "The differences that the permutation test does not reject at the pair's adjusted level. "
        "It contains 0 exactly where the pair is undecided.",
        "inversion of a test: Lehmann and Romano 2005, Testing Statistical Hypotheses, 3.5",
        _several_labels,
    ),
    Definition(
        "difference of means",
        "The mean over tasks of the difference of the task means, with Welch's t interval.",
        "Welch 1947, The Generalization of Student's Problem",
        _several_labels,
    ),
    Definition(
        "adjusted p",
        "The largest p-value of all hypotheses under which both labels are equal, among the "
        "partitions of all labels into groups of equal ones. The probability of any false verdict "
        "is then at most the declared level. More than seven labels are tested in stretches of "
        "neighbours, which is an approximation.",
        "Marcus, Peritz and Gabriel 1976, On Closed Testing Procedures",
        _several_labels,
    ),
    Definition(
        "what could be found",
        "The true difference that the comparison finds with the requested power, by simulation of "
        "its test with normal scores of the observed spread.",
        "simulation, in rlexp",
        _several_labels,
    ),
    Definition(
        "equivalence",
        "Both one-sided tests reject that the difference lies beyond the declared margin.",
        "Schuirmann 1987, two one-sided tests",
        _margin,
    ),
    Definition(
        "bounds",
        "The aggregate if every run without a score had the minimum, or the maximum, score that "
        "its task declares.",
        "Manski 2003, Partial Identification of Probability Distributions",
        _incomplete,
    ),
    Definition(
        "Welch and Mann–Whitney tests",
        "The t test of equal means with unequal variances, and the rank test of whether one label "
        "tends to score higher.",
        "Welch 1947; Mann and Whitney 1947",
        lambda report: _several_labels(report) and "pairs" in report.sections,
    ),
    Definition(
        "Cliff's delta",
        "P(x > y) − P(x < y) for runs of two labels on a task, averaged over tasks.",
        "Cliff 1993, Dominance Statistics",
        lambda report: _several_labels(report) and "pairs" in report.sections,
    ),
    Definition(
        "learning curve",
        "The metric of the runs at common numbers of steps, with each run at its most recent "
        "evaluation; bands resample whole runs.",
        AGARWAL,
        _section("curves"),
    ),
    Definition(
        "area under the curve",
        "Mean height of a run's evaluation curve by the trapezoidal rule.",
        "rlexp",
        _section("sample_efficiency"),
    ),
    Definition(
        "performance profile",
        "The share of runs over all tasks that score more than τ, for every τ.",
        AGARWAL,
        _section("profiles"),
    ),
    Definition(
        "probability of improvement",
        "P(x > y) + ½ P(x = y) for runs of two labels on a task, averaged over tasks.",
        AGARWAL,
        lambda report: _several_labels(report) and "improvement" in report.sections,
    ),
    Definition(
        "reliability metrics",
        "Dispersion (interquartile range) and risk (mean of the worst 5 %) across time, across "
        "runs and across episodes of the final policy.",
        CHAN,
        _section("reliability"),
    ),
    Definition(
        "time to threshold",
        "Kaplan–Meier estimate of the steps until an evaluation reaches the threshold. Runs that "
        "never reach it are censored at their last evaluation, not missing. Labels are compared by "
        "the log-rank test.",
        "Kaplan and Meier 1958, Nonparametric Estimation from Incomplete Observations",
        _section("thresholds"),
    ),
)
