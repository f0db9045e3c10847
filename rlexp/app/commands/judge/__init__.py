"""Use cases that judge: compare, report, best, power, evaluate."""
