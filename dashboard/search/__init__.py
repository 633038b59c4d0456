"""The search in payloads: which text a half has, an index over its words, and looking for words in the text itself."""
