"""A recording on its way in: files and uploads, records gathered by call, rows derived from them."""
