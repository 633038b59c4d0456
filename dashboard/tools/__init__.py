"""The pages of built-in tools: definitions, samples and recorded use."""
