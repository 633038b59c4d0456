"""Counts tokens in a process of its own. `tokens` runs it as a program; it is never imported.

Each input line is a JSON array of texts, each output line the JSON array of their counts. It ends with its input.
"""

from __future__ import annotations

import json
import sys

import toktok


def main(encoding: str) -> None:
    toktok.batch_count([""], encoding)  # loads the vocabulary before the first line comes
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(toktok.batch_count(json.loads(line), encoding)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
