"""Definitions of what a report says about sweeps and grids of settings, with their sources."""

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
            "Mean tuning score of the winner minus its mean test score, with Welch's interval. It is "
            "positive on average, as the winner was chosen for its tuning score."
        ),
        EIMER,
    ),
    (
        "expected optimism",
        (
            "m σ²/n / √(τ² + σ²/n) for the best of K configurations on n tuning seeds, where m is the "
            "expected maximum of K standard normal numbers, σ² the variance of the runs of one "
            "configuration and τ² that of the true means."
        ),
        "winner's curse in the Gaussian model; rlexp",
    ),
    (
        "full-run equivalents",
        (
            "Environment steps of the search divided by those of a full run, a configuration counting "
            "once whatever its tuning seeds."
        ),
        EIMER,
    ),
    (
        "PED-ANOVA",
        (
            "Pearson divergence of the density of each parameter among the best tenth of the trials "
            "from that among all, as a share of the sum."
        ),
        (
            "Watanabe, Bansal and Hutter 2023, PED-ANOVA: Efficiently Quantifying Hyperparameter "
            "Importance in Arbitrary Subspaces"
        ),
    ),
    (
        "fANOVA",
        (
            "Variance of a random forest's prediction, averaged over all other parameters, as a share "
            "of the sum. Refused where its R² on unseen trials is below 0.3."
        ),
        (
            "Hutter, Hoos and Leyton-Brown 2014, An Efficient Approach for Assessing Hyperparameter "
            "Importance"
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
            "Φ = P − C: the mean over tasks of the score of the best setting of each, less the best "
            "mean over tasks of any one setting that ran on all of them."
        ),
        ADKINS,
    ),
    (
        "effective dimensionality",
        (
            "The least number of parameters that must be tuned for each task, the others as in the "
            "setting of C, to reach 95 % of P. Every subset is tried, on settings that ran on all "
            "tasks."
        ),
        ADKINS,
    ),
    (
        "interval of sensitivity",
        (
            "Estimate less its bootstrap bias ± t · s over resamples of whole runs within each setting "
            "and task, spread by √(n/(n−1)), with as many degrees of freedom as tasks times the "
            "fewest runs less one; quantiles for the dimensionality."
        ),
        "Davison and Hinkley 1997, Bootstrap Methods and Their Application",
    ),
)
"""Name, meaning and source of each."""
