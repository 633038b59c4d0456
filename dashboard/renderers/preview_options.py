"""The options of a preview, read from its address.

    variant=receipt   budget=800 of=950 (tokens; without a budget, or with all there are: the variant's own policy)
    head=50   cut=lines|characters
    against=recorded|<variant>   view=side|unified   spaces=1   row=0

A value that does not fit is replaced by its default, and `problems` reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from dashboard.text.diff_markup import DiffView
from dashboard.text.params import Params
from dashboard.variants.variant_list import RECORDED, OfferedVariant, find_variant
from envelopes.schema.budget import CutAt, RenderPolicy

MOST_TOKENS = 1_000_000
NOTHING = "none"  # of `against`: no difference is shown


@dataclass(frozen=True, kw_only=True)
class PreviewOptions:
    """`budget` is None under the variant's own policy; `against` is empty where no difference is shown."""

    chosen: OfferedVariant
    budget: int | None
    head_share: int
    cut_at: CutAt
    against: str
    view: DiffView
    spaces: bool
    row: int
    problems: tuple[str, ...]

    @property
    def policy(self) -> RenderPolicy:
        own = self.chosen.variant.policy
        return msgspec.structs.replace(own, head_share=self.head_share, cut_at=self.cut_at)


def read_options(
    query: Mapping[str, str], variants: tuple[OfferedVariant, ...], *, has_recorded: bool
) -> PreviewOptions:
    """`variants` are those of the family, the default first."""
    params = Params(query)
    keys = [variant.key for variant in variants]
    key = params.text("variant", default=keys[0])
    chosen = find_variant(variants, key)
    if chosen is None:
        params.problems.append(f"variant={key[:60]} is not a variant of this family, which has {', '.join(keys)}")
        chosen = variants[0]
    own = chosen.variant.policy
    references = [*([RECORDED] if has_recorded else []), NOTHING, *keys]
    against = params.choice("against", references, default=references[0])
    # A slider at its right end asks for everything, also of the next variant, whose `of` is another number.
    budget = params.integer("budget", default=MOST_TOKENS, least=1, most=MOST_TOKENS)
    whole = params.integer("of", default=MOST_TOKENS, least=1, most=MOST_TOKENS)
    cut_at: CutAt = params.choice("cut", ("lines", "characters"), default=own.cut_at)
    view: DiffView = params.choice("view", ("side", "unified"), default="side")
    return PreviewOptions(
        chosen=chosen,
        budget=budget if budget < whole else None,
        head_share=params.integer("head", default=own.head_share, most=100),
        cut_at=cut_at,
        against="" if against == NOTHING else against,
        view=view,
        spaces=params.flag("spaces"),
        row=params.integer("row", default=0),
        problems=tuple(params.problems),
    )
