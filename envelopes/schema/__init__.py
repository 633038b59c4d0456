"""The types of a tool-result envelope and of the records around it."""
