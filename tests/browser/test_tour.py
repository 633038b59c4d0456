"""A tour of 20 calls in real recordings: how many presses lead from Runs to the characters that answer a question.

Every question is of the form "which line made it fail, and did the model get it?". The asker knows the run, whether a
call failed or was cut, and a word that the line will have, but not the line. Each key and click counts one, and so does
a text that is typed. `python -m tests.bench.tour` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Page, expect

from dashboard.ingest.importer import import_paths
from dashboard.models import Project
from tests.browser.counted_page import CountedPage, link_in_bar

pytestmark = [pytest.mark.recordings, pytest.mark.django_db(transaction=True)]

FILES = (
    *("api_error_retries", "lsp", "many_errors_27", "mcp_linear", "microcompact", "persisted_outputs"),
    *("subagents_v2.1.4", "taskcreate_v2.1.39", "todowrite", "webfetch"),
)
OTHER_FILES = ("spotter/4d5611e5-241a-462a-8d15-5122611a9569.jsonl", "codemie/session-3fe1b6bc.jsonl")
MOST_PRESSES = 6
LINE_OF_MARK = """(mark) => {
  const [text, before] = [mark.closest("pre").textContent, new Range()];
  before.setStart(mark.closest("pre"), 0);
  before.setEndBefore(mark);
  const at = before.toString().length;
  return text.slice(text.lastIndexOf("\\n", at) + 1).split("\\n")[0];
}"""


@dataclass(frozen=True)
class Search:
    """A query whose first call is opened at its match. `got`: the model got the line."""

    question: str
    query: str
    line: str
    got: bool


@dataclass(frozen=True)
class Cut:
    """The cut call with that many seen lines is opened at the first line that the model did not see."""

    question: str
    seen: str
    line: str


SEARCHES = (
    Search(
        "Which name did the e2e tests not have?",
        "title:e2e status:failed receipt:undefined",
        "cmd/entire/cli/e2e_test/testenv.go:42:26: undefined: defaultAgent",
        got=True,
    ),
    Search(
        "Which test of the e2e run failed first?",
        "title:e2e status:failed receipt:FAIL",
        "--- FAIL: TestHasSignificantContentOverlap (0.00s)",
        got=True,
    ),
    Search(
        "What did the build of the midnight fix lack?",
        "title:midnight status:failed receipt:undefined",
        "cmd/entire/cli/validation/validators.go:19:10: undefined: errors",
        got=True,
    ),
    Search(
        "Which import was left over?",
        'title:midnight status:failed receipt:"imported and not used"',
        'integration_test/hooks.go:13:2: "entire.io/cli/cmd/entire/cli/paths" imported and not used',
        got=True,
    ),
    Search(
        "Why did an edit of the midnight fix fail?",
        "title:midnight status:failed tool:Edit receipt:found",
        "String to replace not found in file.",
        got=True,
    ),
    Search(
        "What could the gemini run not read?",
        "title:gemini status:failed receipt:illegal",
        "EISDIR: illegal operation on a directory, read",
        got=True,
    ),
    Search(
        "Why could the wingman run not fetch?",
        "title:wingman status:failed receipt:fatal",
        "fatal: 'origin' does not appear to be a git repository",
        got=True,
    ),
    Search(
        "What did gosec say of the wingman?",
        "title:wingman status:failed receipt:gosec",
        "cmd/entire/cli/wingman.go:122:5: G104: Errors unhandled (gosec)",
        got=True,
    ),
    Search(
        "Which line did the linter refuse?",
        "title:resume status:failed receipt:nilerr",
        "cmd/entire/cli/resume.go:406:4: error is not nil (line 400) but it returns nil (nilerr)",
        got=True,
    ),
    Search(
        "Which test of resume failed first?",
        "title:resume status:failed receipt:FAIL",
        "--- FAIL: TestResume_SessionLogAlreadyExists (0.46s)",
        got=True,
    ),
    Search(
        "Why could the spotter run not push?",
        "title:spotter status:failed receipt:fatal",
        "fatal: The current branch spotter-dov has no upstream branch.",
        got=True,
    ),
    Search(
        "Where did jq stop?",
        "title:codex status:failed receipt:parse",
        "jq: parse error: Invalid numeric literal at line 1, column 122",
        got=True,
    ),
    Search(
        "Which flag did gh not know?",
        'title:"pull/104" status:failed receipt:unknown',
        "unknown flag: --stat",
        got=True,
    ),
    Search(
        "Which test failed on the shadow branch?",
        "title:shadow status:failed receipt:FAIL",
        "--- FAIL: TestDefaultBranch_PostTaskWorksOnMain (0.00s)",
        got=True,
    ),
    Search(
        "Did the model see a fatal test line of the wingman's duplicates?",
        "title:wingman cut:yes canonical:Fatalf",
        't.Fatalf("ParseHookInput() error = %v", err)',
        got=False,
    ),
    Search(
        "Did the model see the hook for TODOs?",
        "title:shadow cut:yes canonical:TODO",
        'CLAUDE_PROJECT_DIR}/cmd/entire/main.go hooks claude-code post-todo"',
        got=False,
    ),
)
CUTS = (
    Cut("Where did the search for SaveChanges stop?", "18 of 293 lines", "auto_commit_test.go-28-}"),
    Cut(
        "Where did the search for the end of sessions stop?",
        "20 of 1,482 lines",
        "archived = append(archived, session)",
    ),
    Cut("Where did the search for handlers of stop stop?", "23 of 283 lines", "debug.go-227-"),
    Cut("Where did the search for session ids stop?", "19 of 325 lines", "hooks_claudecode_handlers.go-40-"),
)


@pytest.fixture
def recorded(project: Project, recordings_root: Path) -> Project:
    folder = recordings_root / "claude-code"
    import_paths(project, [folder / "entire" / f"{name}.jsonl" for name in FILES])
    import_paths(project, [folder / name for name in OTHER_FILES])
    return project


def test_the_median_from_runs_to_the_characters_is_at_most_six(operator_page: Page, recorded: Project) -> None:
    rows = [(search.question, count_search(operator_page, search)) for search in SEARCHES]
    rows += [(cut.question, count_cut(operator_page, cut)) for cut in CUTS]
    middle = median(presses for _, presses in rows)
    for question, presses in rows:
        print(f"{presses:>3}  {question}")
    print(f"{middle:>3}  median of {len(rows)} questions")
    assert len(rows) == 20
    assert middle <= MOST_PRESSES


def count_search(page: Page, search: Search) -> int:
    counted = CountedPage(page)
    counted.start("/runs/")
    counted.press("S")
    counted.write(search.query)
    counted.press("Enter")
    expect(page.locator(".found .match mark").first).to_be_visible()
    counted.press("j", "Enter")
    half = "receipt" if search.got else "recorded result"
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"in the {half}")
    expect(page.locator("pre mark").first).to_be_in_viewport()
    assert search.line in page.locator("pre mark").first.evaluate(LINE_OF_MARK)
    if not search.got:
        expect(page.locator(".page-head")).to_contain_text("The receipt does not contain it")
    return counted.presses + counted.texts


def count_cut(page: Page, cut: Cut) -> int:
    counted = CountedPage(page)
    counted.start("/runs/")
    counted.click(link_in_bar(page, "Calls"))
    counted.click(page.get_by_role("link", name="Cut before the model"))
    counted.click(page.locator("tr[data-item]", has_text=cut.seen.removesuffix(" lines")).locator("a.call-name").first)
    expect(page.locator("#step")).to_contain_text(f"the model got {cut.seen}")
    counted.press("g")
    line = page.locator("[data-highlighted]")
    expect(line).to_have_attribute("data-seen", "no")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text(cut.line)
    return counted.presses
