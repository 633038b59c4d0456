"""One run with one of its calls open: the steps on the left, the open step in tabs on the right."""
