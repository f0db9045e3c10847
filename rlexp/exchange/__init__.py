"""The way out to other tools: a sweep as a study of Optuna."""
