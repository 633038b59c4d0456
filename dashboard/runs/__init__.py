"""The pages of runs: the list, one run, and its history as the model had it."""
