"""The pages of renderers: previews of variants, and templates written in the browser."""
