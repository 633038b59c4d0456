"""Used-line recall over planted runs whose items are known, and cuts that know nothing of a tool."""

from __future__ import annotations

import random
import time

from envelopes.recall import (
    BASELINES,
    BaselineQuery,
    ItemUse,
    RunStep,
    UsedItem,
    build_items,
    keeps,
    pick_pieces,
    split_pieces,
    walk,
)
from envelopes.recall.baselines import score_pieces
from envelopes.recall.items import find_features, find_unprompted
from tests.cases import each

LINE = "the answer of this command is forty two"
OTHER = "a second line that is quoted as well"
NAME = "readConfiguration2"
FILLER = "\n".join(f"filler number {number} says nothing" for number in range(40))
OUTPUT = f"{FILLER}\n{LINE}\n{FILLER.replace('filler', 'padding')}\n{OTHER}\nshort {NAME}"
AT, OTHER_AT, NAME_AT = 40, 81, 82  # the pieces of OUTPUT


def user(text: str) -> RunStep:
    return RunStep("user", "u", text)


def said(text: str) -> RunStep:
    return RunStep("assistant", "a", text)


def call(text: str) -> RunStep:
    return RunStep("call", "c", text)


def output(text: str = OUTPUT, *, is_scored: bool = True) -> RunStep:
    return RunStep("output", "o", text, is_scored)


def items(*steps: RunStep, cwd: str = "") -> dict[int, tuple[UsedItem, ...]]:
    return dict(build_items(walk(steps, cwd=cwd)))


QUOTED = {2: (UsedItem((AT,), 3),)}
CASES = {
    "a quoted line": ((user("do"), call("ls"), output(), said(f"It says:\n{LINE}")), QUOTED),
    "in arguments": ((user("do"), call("ls"), output(), call(f"x\n  {LINE}  ")), QUOTED),
    "a shingle": ((user("do"), call("ls"), output(), said(f"so {LINE}, I think")), QUOTED),
    "the first use counts": ((user("do"), call("ls"), output(), said(LINE), said(LINE)), QUOTED),
    "a name": ((user("do"), call("ls"), output(), said(f"call {NAME}()")), {2: (UsedItem((NAME_AT,), 3),)}),
    "two items": (
        (user("do"), call("ls"), output(), said(OTHER), call(LINE)),
        {2: (UsedItem((AT,), 4), UsedItem((OTHER_AT,), 3))},
    ),
    "nothing is quoted": ((user("do"), call("ls"), output(), said("done")), {}),
    "the user wrote it before": ((user(LINE), call("ls"), output(), said(LINE)), {}),
    "the model wrote it before": ((user("do"), said(LINE), output(), said(LINE)), {}),
    "the call's own arguments have it": ((user("do"), call(LINE), output(), said(LINE)), {}),
    "another output showed it before": ((output(LINE), call("ls"), output(), said(OTHER)), {2: (UsedItem((81,), 3),)}),
    "another output showed it before its use": ((user("do"), call("ls"), output(), output(LINE), said(LINE)), {}),
    "another output shows it after its use": ((user("do"), call("ls"), output(), said(LINE), output(LINE)), QUOTED),
    "the user quotes it": ((user("do"), call("ls"), output(), user(LINE)), {}),
    "an output that is not scored": ((user("do"), call("ls"), output(is_scored=False), said(LINE)), {}),
    "one that is not scored shows it": ((user("do"), output(is_scored=False), output(), said(LINE)), {}),
    "on three lines": (
        (user("do"), call("ls"), output(f"{LINE}\n{LINE}\n{LINE}"), said(LINE)),
        {2: (UsedItem((0, 1, 2), 3),)},
    ),
    "on four lines": ((user("do"), call("ls"), output(f"{LINE}\n" * 4), said(LINE)), {}),
    "a short line": ((user("do"), call("ls"), output("exit 0\nok"), said("exit 0")), {}),
    "a number is no name": ((user("do"), call("ls"), output("x 1234567.89012345"), said("1234567.89012345")), {}),
}


@each("case", CASES)
def test_a_planted_run_has_exactly_its_items(case: str) -> None:
    steps, expected = CASES[case]
    assert items(*steps) == expected


def test_a_set_of_carriers_that_contains_another_is_no_item_of_its_own() -> None:
    text = f"{NAME} is defined here, on this very line\n{FILLER}\nand {NAME}"
    assert items(output(text), said(text.split("\n")[0])) == {0: (UsedItem((0,), 1),)}
    assert items(output(text), said(NAME)) == {0: (UsedItem((0, 41), 1),)}


def test_a_feature_that_models_write_unprompted_is_left_out() -> None:
    run = (user("do"), call("ls"), output(), said(f"{LINE}\n{OTHER}"))
    uses = list(walk(run))
    among = {use.feature for use in uses}
    assert find_unprompted(run, among) == set()
    stopped = find_unprompted((user("hello"), said(LINE), output(OTHER), said(OTHER)), among)
    assert stopped == find_features(LINE) & among
    assert build_items(uses, stopped) == {2: (UsedItem((OTHER_AT,), 3),)}


def test_reminders_numbers_paths_and_white_space_are_stripped() -> None:
    text = f"  7→\t{LINE}\n<system-reminder>\n{OTHER}\n</system-reminder>\nsrc/a.py:12:  in  /home/me/x/b.py  now"
    assert [(piece.line, piece.text) for piece in split_pieces(text, "/home/me/x")] == [(0, LINE), (4, "in b.py now")]
    assert [len(piece.text) for piece in split_pieces("y" * 900)] == [400, 400, 100]
    assert items(output(text), said(f"{LINE}\n{OTHER}")) == {0: (UsedItem((0,), 1),)}


@each("receipt", [OUTPUT, f"12→   {LINE}", f'{{"stdout":"x\\n{LINE}\\n"}}', LINE.replace(" ", "\n ")])
def test_a_receipt_that_has_the_line_in_any_form_keeps_it(receipt: str) -> None:
    assert keeps(receipt, [split_pieces(OUTPUT)[AT]])
    assert not keeps(receipt.replace("forty", "four"), [split_pieces(OUTPUT)[AT]])


def test_a_line_with_quotes_and_paths_is_found_in_json_and_below_the_directory() -> None:
    (piece,) = split_pieces('say "hello" in\t/w/a.py and /w/b.py', "/w/")
    assert piece.text == 'say "hello" in a.py and b.py'
    assert keeps('{"x":"say \\"hello\\" in\\t/w/a.py and /w/b.py"}', [piece], cwd="/w")
    assert not keeps("say hello in /w/a.py and /w/b.py", [piece], cwd="/w")


def test_each_baseline_keeps_what_it_is_named_for_within_the_size() -> None:
    pieces, query = split_pieces(OUTPUT), BaselineQuery("what is the answer of the command", "seed")
    kept = {name: pick_pieces(pieces, name, 400, query) for name in BASELINES}
    assert all(sum(pieces[index].size for index in chosen) <= 400 for chosen in kept.values())
    assert kept["first"] == frozenset(range(len(kept["first"])))
    assert kept["last"] == frozenset(range(len(pieces) - len(kept["last"]), len(pieces)))
    assert {0, len(pieces) - 1} < kept["head+tail"]
    assert AT in kept["bm25"]
    assert AT not in kept["first"] | kept["last"] | kept["head+tail"]
    assert kept["random"] == pick_pieces(pieces, "random", 400, query)
    assert kept["random"] != pick_pieces(pieces, "random", 400, query._replace(seed="other"))
    assert pick_pieces(pieces, "random", 10**6, query) == frozenset(range(len(pieces)))


def test_bm25_weighs_rare_words_more_and_longer_lines_less() -> None:
    pieces = split_pieces("alpha common\nbeta common\nalpha common and many more words than the others\ncommon\ncommon")
    scores = score_pieces(pieces, "Alpha common")
    assert scores[0] > scores[2] > scores[1]
    assert score_pieces([], "x") == []


def test_of_a_permuted_corpus_few_items_remain() -> None:
    """Quotations of one run against the outputs of others: what is left is the rate by chance."""
    draw = random.Random(7)
    words = [f"word{number}" for number in range(200)]
    runs = []
    for number in range(40):
        lines = [" ".join(draw.choices(words, k=9)) for _ in range(30)]
        quoted = draw.choice(lines)
        runs.append((user(f"task {number}"), call("run"), output("\n".join(lines)), said(quoted)))
    assert sum(bool(items(*run)) for run in runs) == 40
    permuted = [(*run[:3], runs[(number + 1) % 40][3]) for number, run in enumerate(runs)]
    by_chance = sum(bool(items(*run)) for run in permuted)
    print(f"\nruns with an item: 40 of 40; with the quotations of another run: {by_chance} of 40")
    assert by_chance == 0


def test_items_are_the_carriers_that_contain_no_other() -> None:
    draw = random.Random(7)
    for _ in range(50):
        chosen = {tuple(sorted(draw.sample(range(8), draw.randint(1, 3)))) for _ in range(draw.randint(1, 12))}
        least = sorted(one for one in chosen if not any(set(other) < set(one) for other in chosen))
        uses = [ItemUse(0, number, carriers, 1) for number, carriers in enumerate(chosen)]
        assert [item.carriers for item in build_items(uses)[0]] == least


def test_a_file_that_is_written_as_it_was_read_takes_no_square_of_its_lines() -> None:
    uses = [ItemUse(0, line, (line,), 1) for line in range(8_000)]
    began = time.process_time()
    assert len(build_items(uses)[0]) == 8_000
    assert time.process_time() - began < 2
