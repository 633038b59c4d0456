"""How often the processes of this program look for garbage: the server, its pool, the background work, commands.

Python looks after every 700 new objects, and visits hundreds of thousands of loaded objects in a full collection. A
page creates up to a hundred thousand objects and hardly a cycle: for a result of 1 MB that took 14 ms of 85, and of
an import a tenth of its time.
"""

from __future__ import annotations

import gc

NEW_OBJECTS = 50_000  # between two collections
NEW_OBJECTS_IN_BACKGROUND = 20_000  # a batch creates objects by the hundred thousand; more often, for less memory


def collect_rarely(new_objects: int = NEW_OBJECTS) -> None:
    gc.set_threshold(new_objects, 10, 10)


def exclude_loaded() -> None:
    """Leaves everything that is loaded by now out of all later collections: the program itself is never garbage."""
    gc.collect()
    gc.freeze()
