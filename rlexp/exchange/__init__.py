"""The way in and out: results of other tools, records for them, a sweep as a study of Optuna."""
