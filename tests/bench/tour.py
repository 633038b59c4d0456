"""Prints how many presses lead from Runs to the answers of 20 questions about real recordings.

python -m tests.bench.tour
"""

from __future__ import annotations

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-s", "-n", "0", "-m", "recordings", "tests/browser/test_tour.py"]))
