#!/usr/bin/env python
from __future__ import annotations

from dashboard.__main__ import main

if __name__ == "__main__":
    main()
