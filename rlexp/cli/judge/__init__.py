"""Commands that judge: compare, report, best, power, evaluate."""
