"""The definition of experiments: phases, seeds, budgets, runs and their identity, without I/O."""
