"""Codecs: other wire forms of what is stored. Each module has `encode` and `decode`, which round-trip.

    call            CALL's camelCase objects, and JSONL files of them
    outcome         the five-way union of a tool loop
    holon           the envelope with artifacts inside the result and without nulls
    content_blocks  a receipt as content blocks beside artifacts

Pure functions of settlement, envelope, artifacts and receipt: a codec adds no information.
"""
