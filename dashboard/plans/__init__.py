"""Plans that run here, their confirmation, and the view of a plan beside its run."""
