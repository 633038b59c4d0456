"""Background work beside the server: worker processes and the batches of comparisons."""
