"""The envelope itself as JSON text: what a runtime without receipts sends, for comparison with them.

The text is `json.dumps(envelope, ensure_ascii=False)`. Over the budget, strings and lists are shortened before they
are written, so that the text stays JSON.
"""

from __future__ import annotations

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult
from envelopes.schema.variant import Variant
from envelopes.variants.json_writing import render_json, with_sources


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    return render_json(with_sources(canonical.to_json(), ""), policy, ascii_only=False)


VARIANT = Variant(id="canonical_json", version=1, title="Envelope as JSON", render=render)
