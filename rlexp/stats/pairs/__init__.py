"""Two labels compared: p-values, intervals, families of pairs, verdicts, and the seeds that they need."""
