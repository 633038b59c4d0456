"""Previews of variants on one call, templates written in the browser, and differences of texts."""
