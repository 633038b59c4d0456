"""The query language of lists and the QuerySets that it builds."""
