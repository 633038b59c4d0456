"""The markup of shared files: their style, and a text with the hash by which `sharing.share_file` checks it.

A shared file has no other resource, so its style stands in it. Each text is one `<pre>` that begins with a newline,
which every HTML parser drops; characters that cannot be shown are marks with their code points, as on every page.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Sequence

from django.utils.safestring import SafeString, mark_safe

from dashboard.text.text_markup import escape

STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1d2330, #e6e9ee); --muted: light-dark(#4d5565, #a9b1bf);
  --line: light-dark(#d9dde4, #3a4250); --back: light-dark(#ffffff, #14181f); --sunken: light-dark(#f4f6f9, #0f1318);
  --cut: light-dark(#fdf0d5, #3a2c10); --cut-ink: light-dark(#7a4d00, #f0c26b);
  --accent: light-dark(#2456b8, #8db4ff); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 14px/1.5 system-ui, sans-serif; }
main, footer { max-width: 90rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.3rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h3 { font-size: .9rem; margin: .8rem 0 .2rem; }
section { border-top: 1px solid var(--line); padding-top: 1rem; margin-top: 1.5rem; }
dl { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .3rem 0; }
dl div { display: flex; gap: .4rem; } dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
p { margin: .2rem 0; } .muted, footer { color: var(--muted); } .cut { color: var(--cut-ink); }
pre { margin: 0; padding: .6rem; max-height: 40rem; overflow: auto; background: var(--sunken);
  border: 1px solid var(--line); border-radius: 4px; font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
pre:focus-visible { outline: 2px solid var(--accent); }
.halves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 0 1rem; }
.unseen { background: var(--cut); } .mark { font-style: normal; color: var(--cut-ink); border: 1px solid var(--line); }
.hashes { font: 11px/1.6 ui-monospace, monospace; overflow-wrap: anywhere; }
@media print { pre { max-height: none; } }
"""


def style_element() -> SafeString:
    return mark_safe(f"<style>{STYLE}</style>")


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def shared_text(name: str, text: str, unseen: Sequence[tuple[int, int]] = ()) -> SafeString:
    """The text with its hash. `unseen` are the ranges of characters that the model did not get, in order: anchors."""
    pieces: list[str] = []
    offset = 0
    for number, (start, end) in enumerate(unseen, 1):
        opening = f'<span class="unseen" id="{html.escape(name)}-unseen-{number}">'
        pieces += [escape(text[offset:start]), f"{opening}{escape(text[start:end])}</span>"]
        offset = end
    pieces.append(escape(text[offset:]))
    opening = f'<pre tabindex="0" data-text="{html.escape(name)}" data-sha256="{hash_text(text)}">'
    return mark_safe(f"{opening}\n{''.join(pieces)}</pre>")
