"""Recordings as other releases, other programs and other disks write them: layouts that no sample has.

made       what they are made of
messages   results, contents and blocks of every kind
folders    sessions in several files, subagents, forks
streams    the output of stream-json
audits     folders of a plan executor
damage     bytes, stamps and lengths that no program should write
"""

from __future__ import annotations

from tests.dashboard.unseen import audits, damage, folders, messages, streams
from tests.dashboard.unseen.made import Recorded

RECORDINGS: dict[str, Recorded] = {
    **messages.RECORDINGS,
    **folders.RECORDINGS,
    **streams.RECORDINGS,
    **audits.RECORDINGS,
    **damage.RECORDINGS,
}
