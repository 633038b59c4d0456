"""The language of filters and the QuerySets that answer it."""
