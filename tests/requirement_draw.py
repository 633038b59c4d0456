"""Rows drawn at random from those that tests prove, to be tried by breaking the feature by hand.

    python -m tests.requirement_draw SEED [NUMBER]

prints each row with its sentence and the tests that have to fail while its feature is broken. The same
seed draws the same rows as long as the same rows are proved.
"""

from __future__ import annotations

import random
import re
import sys
import tomllib
from pathlib import Path

MAP = Path(__file__).with_name("requirements.toml")
ROW = re.compile(r"^# (?P<sentence>.+)\n(?P<row>[A-Z]+-\d{3})\b", re.MULTILINE)
NUMBER = 30


def drawn(text: str, seed: str, number: int) -> dict[str, list[str]]:
    """Rows in the order of the map, each with its tests."""
    proved = {row: said["tests"] for row, said in tomllib.loads(text).items() if "tests" in said}
    chosen = set(random.Random(seed).sample(sorted(proved), number))
    return {row: tests for row, tests in proved.items() if row in chosen}


def main(seed: str, number: str = str(NUMBER)) -> None:
    text = MAP.read_text("utf-8")
    sentences = {found["row"]: found["sentence"] for found in ROW.finditer(text)}
    for row, tests in drawn(text, seed, int(number)).items():
        print(f"{row}  {sentences[row]}")
        print("".join(f"    {test}\n" for test in tests))


if __name__ == "__main__":
    main(*sys.argv[1:])
