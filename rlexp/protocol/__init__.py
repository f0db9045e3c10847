"""The experiment as asked for: phases, seeds, budget, runs and their identity. Pure."""
