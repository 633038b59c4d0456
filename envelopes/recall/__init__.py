"""Used-line recall: which lines of a tool's output later steps of the run quoted, and which receipts keep them."""

from envelopes.recall.baselines import BASELINES, BaselineQuery, OutputPiece, pick_pieces, split_pieces
from envelopes.recall.items import (
    ItemUse,
    RunStep,
    StepKind,
    UsedItem,
    build_items,
    collect_strings,
    find_unprompted,
    keeps,
    walk,
)

__all__ = [
    "BASELINES",
    "BaselineQuery",
    "ItemUse",
    "OutputPiece",
    "RunStep",
    "StepKind",
    "UsedItem",
    "build_items",
    "collect_strings",
    "find_unprompted",
    "keeps",
    "pick_pieces",
    "split_pieces",
    "walk",
]
