"""The stored halves of one call, their fidelity and their labels."""
