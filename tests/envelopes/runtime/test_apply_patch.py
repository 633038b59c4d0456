"""ApplyPatch: what a patch changes, what is refused and why, and that a refused patch changes nothing."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelopes.families.registry import builtin
from envelopes.runtime.apply_patch import apply_patch
from envelopes.runtime.unified_diff import PatchRefused

APP = "import sys\n\ndef main():\n    print(1)\n\ndef stop():\n    print(1)\n"
GIT = "diff --git a/app.py b/app.py\n"
BOTH = "--- a/app.py\n+++ b/app.py\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "q.sql").write_text("-- first\nselect\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\nwithout newline")
    return tmp_path


def tree(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("patch", "marks", "path", "content"),
    [
        (BOTH + "@@ -1,2 +1,2 @@\n-import sys\n+import os\n \n", ["M app.py"], "app.py", APP.replace("sys", "os")),
        # Line numbers are hints: the context decides.
        (
            BOTH + "@@ -90,2 +90,2 @@ somewhere\n def stop():\n-    print(1)\n+    pass\n",
            ["M app.py"],
            "app.py",
            APP.removesuffix("    print(1)\n") + "    pass\n",
        ),
        (
            "--- /dev/null\n+++ b/new/deep/a.txt\n@@ -0,0 +1 @@\n+first\n",
            ["A new/deep/a.txt"],
            "new/deep/a.txt",
            "first\n",
        ),
        (
            "--- app.py\n+++ app.py\n@@ -1 +1 @@\n-import sys\n+import os\n",
            ["M app.py"],
            "app.py",
            APP.replace("sys", "os"),
        ),
        (
            "--- a/docs/guide.md\n+++ b/docs/guide.md\n@@ -2 +2 @@\n"
            "-without newline\n\\ No newline at end of file\n+with one\n",
            ["M docs/guide.md"],
            "docs/guide.md",
            "# Guide\nwith one\n",
        ),
        (
            "diff --git a/app.py b/lib/app.py\nsimilarity index 100%\nrename from app.py\nrename to lib/app.py\n",
            ["R app.py -> lib/app.py"],
            "lib/app.py",
            APP,
        ),
        ("diff --git a/e b/e\nnew file mode 100644\nindex 000..e69\n", ["A e"], "e", ""),
        # A removed line that begins with `-- `, above an added one that begins with `++ `.
        (
            "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- first\n+++ first\n select\n",
            ["M q.sql"],
            "q.sql",
            "++ first\nselect\n",
        ),
        (BOTH + "@@ -1 +1 @@\n-import sys\n+import os\n\n\n", ["M app.py"], "app.py", APP.replace("sys", "os")),
        ('diff --git "a/\\303\\251 x" "b/\\303\\251 x"\nnew file mode 100644\n', ["A é x"], "é x", ""),
    ],
)
def test_a_patch_changes_the_files_that_it_names(
    folder: Path, patch: str, marks: list[str], path: str, content: str
) -> None:
    result = apply_patch(folder, patch)
    assert [file.line for file in result.changed_files] == marks
    assert (folder / path).read_text() == content
    assert not [name for name in tree(folder) if ".patch-" in name]


def test_deleted_and_moved_files_are_gone(folder: Path) -> None:
    removed = "".join(f"-{line}\n" for line in APP.splitlines())
    moved = "diff --git a/docs/guide.md b/guide.md\nrename from docs/guide.md\nrename to guide.md\n"
    result = apply_patch(folder, f"--- a/app.py\n+++ /dev/null\n@@ -1,7 +0,0 @@\n{removed}{moved}")
    assert [file.action for file in result.changed_files] == ["delete", "move"]
    assert tree(folder) == {"guide.md": b"# Guide\nwithout newline", "q.sql": b"-- first\nselect\n"}


def test_wrong_counts_and_git_s_lines_are_reported_and_applied(folder: Path) -> None:
    result = apply_patch(folder, GIT + "index 12..34 100644\n" + BOTH + "@@ -1,9 +1,9 @@\n-import sys\n+import os\n")
    assert [(each.kind, each.value) for each in result.ignored_metadata] == [("index", "12..34 100644")]
    (diagnostic,) = result.diagnostics
    assert (diagnostic.path, diagnostic.kind) == ("app.py", "hunk_count_mismatch")
    assert "counts 9 old and 9 new lines, its body has 1 and 1" in diagnostic.message


REFUSED = [
    ("invalid_patch_syntax", "*** Begin Patch\n*** Update File: app.py\n"),
    ("invalid_patch_syntax", "\n\n"),
    ("invalid_patch_syntax", GIT + BOTH + "@@ -1 +1 @@\n-import sys\n+import os\nthen some words\n"),
    ("missing_file_header", "@@ -1 +1 @@\n-import sys\n+import os\n"),
    ("missing_file_header", "--- a/app.py\n@@ -1 +1 @@\n-import sys\n"),
    ("missing_file_header", "+++ b/app.py\n@@ -1 +1 @@\n-import sys\n"),
    ("missing_file_header", GIT + "@@ -1 +1 @@\n-import sys\n+import os\n"),
    ("invalid_git_header", "diff --git app.py\n" + BOTH),
    ("missing_git_header", "rename from app.py\nrename to b.py\n"),
    ("missing_git_header", "index 12..34\n" + BOTH + "@@ -1 +1 @@\n-import sys\n+x\n"),
    ("missing_rename_header", "diff --git a/app.py b/b.py\nrename from app.py\n"),
    ("missing_rename_header", "diff --git a/app.py b/b.py\nindex 1..2\n"),
    ("missing_rename_header", "diff --git a/app.py b/b.py\n--- a/app.py\n+++ b/b.py\n@@ -1 +1 @@\n-import sys\n+x\n"),
    ("invalid_hunk_header", BOTH + "@@ the first lines @@\n-import sys\n+x\n"),
    ("invalid_hunk_line", BOTH + "@@ -1 +1 @@\n-import sys\n*import os\n"),
    ("invalid_hunk_line", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n-no\n+yes\n"),
    ("invalid_hunk_empty_line", BOTH + "@@ -1,3 +1,3 @@\n-import sys\n+import os\n\n def main():\n"),
    ("missing_hunk", BOTH),
    ("missing_hunk", GIT + "index 1..2\n"),
    ("missing_hunk", BOTH + "@@ -1 +1 @@\n"),
    ("path_header_mismatch", "--- a/app.py\n+++ b/b.py\n@@ -1 +1 @@\n-import sys\n+x\n"),
    ("path_header_mismatch", "diff --git a/b.py b/b.py\n" + BOTH + "@@ -1 +1 @@\n-import sys\n+x\n"),
    ("path_header_mismatch", "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-import sys\n+x\n"),
    ("rename_path_mismatch", "diff --git a/app.py b/b.py\nrename from app.py\nrename to c.py\n"),
    ("unsupported_git_patch_feature", GIT + "old mode 100644\nnew mode 100755\n"),
    ("unsupported_git_patch_feature", GIT + "Binary files a/app.py and b/app.py differ\n"),
    ("unsupported_git_patch_feature", "diff --git a/app.py b/b.py\ncopy from app.py\ncopy to b.py\n"),
    ("unsupported_git_patch_feature", "diff --git a/m b/m\nnew file mode 160000\n"),
    ("duplicate_file_patch", 2 * (BOTH + "@@ -1 +1 @@\n-import sys\n+x\n")),
    (
        "duplicate_file_patch",
        (BOTH + "@@ -1 +1 @@\n-import sys\n+x\n") + "diff --git a/app.py b/b\nrename from app.py\nrename to b\n",
    ),
    *[
        ("path_escape", f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n")
        for path in ("b/../x", "/etc/x", "b/a/../../x", "C:/x", "b/out/x", '"b/a\\000"', "b/.")
    ],
    ("invalid_patch_syntax", "--- /dev/null\n+++ b/x\ud800\n@@ -0,0 +1 @@\n+x\n"),
    ("missing_file", "--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n"),
    ("existing_file", "--- /dev/null\n+++ b/app.py\n@@ -0,0 +1 @@\n+x\n"),
    ("existing_file", "diff --git a/app.py b/docs/guide.md\nrename from app.py\nrename to docs/guide.md\n"),
    ("context_not_found", BOTH + "@@ -1 +1 @@\n-import os\n+x\n"),
    ("context_not_found", "--- a/app.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-import sys\n"),
    ("ambiguous_context", BOTH + "@@ -4 +4 @@\n-    print(1)\n+    print(2)\n"),
    ("ambiguous_context", BOTH + "@@ -4,0 +5 @@\n+    print(2)\n"),
    ("patch_failed", "--- a/docs\n+++ b/docs\n@@ -1 +1 @@\n-a\n+b\n"),
]


@pytest.mark.parametrize(("kind", "patch"), REFUSED)
def test_a_refused_patch_names_its_kind_and_changes_nothing(folder: Path, kind: str, patch: str) -> None:
    (folder / "out").symlink_to("/tmp")
    before = tree(folder)
    is_begun = patch.startswith(("diff", "--- "))
    good = "--- /dev/null\n+++ b/good.txt\n@@ -0,0 +1 @@\n+good\n" if is_begun else ""
    with pytest.raises(PatchRefused) as refused:
        apply_patch(folder, good + patch)
    error = refused.value.error
    assert error.kind == kind
    assert error.message
    assert error.recovery_hint
    assert tree(folder) == before


def test_every_kind_that_the_tool_declares_is_refused_here() -> None:
    assert {kind for kind, _ in REFUSED} == set(builtin("ApplyPatch")[1].error_kinds)


def test_a_hunk_without_a_place_shows_the_nearest_lines(folder: Path) -> None:
    with pytest.raises(PatchRefused) as refused:
        apply_patch(folder, BOTH + "@@ -3,2 +3,2 @@\n def main():\n-    print(2)\n+    print(3)\n")
    assert refused.value.error.details == {
        "path": "app.py",
        "hunk": 1,
        "line": 3,
        "expected": ["def main():", "    print(2)"],
        "nearest_line": 3,
        "nearest": ["def main():", "    print(1)"],
    }
    with pytest.raises(PatchRefused) as refused:
        apply_patch(folder, BOTH + "@@ -4 +4 @@\n-    print(2)\n+    print(3)\n")
    assert (refused.value.error.details or {})["nearest"] == ["    print(1)"], "the most alike, where none is the same"
    with pytest.raises(PatchRefused) as refused:
        apply_patch(folder, BOTH + "@@ -4 +4 @@\n-~~~~~~~~~~~~\n+    print(3)\n")
    assert "nearest" not in (refused.value.error.details or {})


@pytest.mark.parametrize(
    ("content", "patch", "says"),
    [
        ("a\r\nb\r\n", "@@ -1 +1 @@\n-a\n+x\n", "the ends of lines differ"),
        ("a", "@@ -1 +1 @@\n-a\n+x\n", "the ends of lines differ"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+x\n@@ -1 +1 @@\n-a\n+y\n", "after hunk 1; hunks stand in the order of the file"),
    ],
)
def test_a_hunk_without_a_place_says_why_where_that_is_known(
    tmp_path: Path, content: str, patch: str, says: str
) -> None:
    (tmp_path / "a").write_bytes(content.encode())
    with pytest.raises(PatchRefused, match=says):
        apply_patch(tmp_path, "--- a/a\n+++ b/a\n" + patch)


def test_bytes_that_are_no_text_and_the_mode_survive(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_bytes(b"\xff\xfe\nold\r\n")
    (tmp_path / "run.sh").chmod(0o755)
    apply_patch(tmp_path, "--- a/run.sh\n+++ b/run.sh\n@@ -2 +2 @@\n-old\r\n+new\r\n")
    assert (tmp_path / "run.sh").read_bytes() == b"\xff\xfe\nnew\r\n"
    assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (
            OSError(5, "Input/output error", "guide.md"),
            PatchRefused,
            "guide.md could not be changed: Input/output error; no file was changed",
        ),
        (MemoryError("no memory"), MemoryError, "no memory"),
        (SystemExit("ended"), SystemExit, "ended"),
    ],
)
def test_a_change_that_fails_undoes_those_before_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, raised: type[BaseException], message: str
) -> None:
    """The last of three files fails, after a folder and a file were made and another file was changed."""
    before = tree(folder)
    replace = Path.replace

    def replace_once(path: Path, target: Path) -> Path:
        if target.name == "guide.md":
            raise error
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_once)
    patch = (
        BOTH
        + "@@ -1 +1 @@\n-import sys\n+x\n"
        + "--- a/docs/guide.md\n+++ b/docs/guide.md\n@@ -1 +1 @@\n-# Guide\n+x\n"
    )
    with pytest.raises(raised, match=message):
        apply_patch(folder, "--- /dev/null\n+++ b/deep/new\n@@ -0,0 +1 @@\n+x\n" + patch)
    monkeypatch.undo()
    assert tree(folder) == before
    assert not (folder / "deep").exists()


MOVED = "diff --git a/link/f b/g\nrename from link/f\nrename to g\n"


@pytest.mark.parametrize("second", ["--- a/link/f\n+++ b/link/f\n@@ -2 +2 @@\n-b\n+B\n", MOVED])
def test_a_file_that_a_patch_names_by_two_paths_is_refused(tmp_path: Path, second: str) -> None:
    """The second change began with the file as it was before the first, which was lost."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("a\nb\n")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(PatchRefused, match="link/f is changed by two parts of the patch") as refused:
        apply_patch(tmp_path, "--- a/real/f\n+++ b/real/f\n@@ -1 +1 @@\n-a\n+A\n" + second)
    assert refused.value.error.kind == "duplicate_file_patch"
    assert tree(tmp_path) == {"real/f": b"a\nb\n"}


@pytest.mark.parametrize(
    ("on_disk", "written", "reported"),
    [
        ("cafe\u0301/re\u0301sume\u0301", "cafe\u0301/re\u0301sume\u0301", "cafe\u0301/re\u0301sume\u0301"),
        ("cafe\u0301/a", "caf\u00e9/a", "cafe\u0301/a"),
        ("caf\u00e9/a", "cafe\u0301/a", "caf\u00e9/a"),
        ("\u212b", "\u212b", "\u212b"),
    ],
)
def test_a_name_is_found_in_the_form_that_it_has_on_disk(
    tmp_path: Path, on_disk: str, written: str, reported: str
) -> None:
    (tmp_path / on_disk).parent.mkdir(exist_ok=True)
    (tmp_path / on_disk).write_text("a\n")
    result = apply_patch(tmp_path, f"--- a/{written}\n+++ b/{written}\n@@ -1 +1 @@\n-a\n+b\n")
    assert ([file.line for file in result.changed_files], tree(tmp_path)) == ([f"M {reported}"], {on_disk: b"b\n"})
    with pytest.raises(PatchRefused, match="exists already"):
        apply_patch(tmp_path, f"--- /dev/null\n+++ b/{written}\n@@ -0,0 +1 @@\n+x\n")


def test_a_new_name_is_composed_and_a_patch_may_write_it_in_two_forms(tmp_path: Path) -> None:
    patch = "diff --git a/e\u0301 b/e\u0301\n--- /dev/null\n+++ b/\u00e9\n@@ -0,0 +1 @@\n+x\n"
    assert [file.line for file in apply_patch(tmp_path, patch).changed_files] == ["A \u00e9"]
    assert tree(tmp_path) == {"\u00e9": b"x\n"}
    two = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-x\n+y\n" for name in ("e\u0301", "\u00e9"))
    with pytest.raises(PatchRefused, match="is changed by two parts of the patch"):
        apply_patch(tmp_path, two)


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("patch_failed", "--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+b\n"),
        ("missing_file", "--- a/l/f\n+++ b/l/f\n@@ -1 +1 @@\n-a\n+b\n"),
        ("patch_failed", "--- /dev/null\n+++ b/l/f\n@@ -0,0 +1 @@\n+x\n"),
    ],
)
def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path, kind: str, patch: str) -> None:
    (tmp_path / "l").symlink_to("l")
    with pytest.raises(PatchRefused) as refused:
        apply_patch(tmp_path, patch)
    assert refused.value.error.kind == kind
    assert [path.name for path in tmp_path.iterdir()] == ["l"]


@given(st.text())
@settings(max_examples=100)
def test_any_text_is_refused_or_applied_and_never_fails(text: str) -> None:
    with pytest.raises(PatchRefused):
        apply_patch(Path("/nonexistent"), text)


def changed(rng: random.Random, lines: list[str]) -> list[str]:
    """The lines with a few of them removed, replaced, doubled or added."""
    result = list(lines)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(result))
        new = [f"{rng.choice(['x', '-- y', '++ z', '', ' w'])}{rng.randint(0, 9)}"] * rng.randint(0, 2)
        result[at : at + rng.randint(0, 2)] = new
    return result


def write_version(rng: random.Random, folder: Path, files: dict[str, list[str]]) -> None:
    for name, lines in files.items():
        if lines is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            ending = "" if rng.random() < 0.2 else "\n"
            path.write_text("\n".join(lines) + (ending if lines else ""))


@pytest.mark.extended
def test_generated_patches_give_the_tree_that_gnu_patch_gives(tmp_path: Path) -> None:
    """500 patches of `diff -ruN`. The subset refuses what matches several places, where GNU patch goes by numbers."""
    refused = 0
    for seed in range(500):
        rng = random.Random(seed)
        base = tmp_path / str(seed)
        names = [f"{rng.choice(['', 'a/', 'b/c/'])}f{number}" for number in range(3)]
        files = {
            name: [f"line {rng.randint(0, 30 if seed % 2 else 1)}" for _ in range(rng.randint(1, 25))] for name in names
        }
        later = {name: changed(rng, lines) for name, lines in files.items() if rng.random() < 0.9}
        later |= {"new/file": ["first", "second"]} if rng.random() < 0.3 else {}
        for side, version in (("a", files), ("b", later), ("ours", files), ("theirs", files)):
            (base / side).mkdir(parents=True)
            write_version(random.Random(seed), base / side, version)
        diff = subprocess.run(["diff", "-ruN", "-U3", "a", "b"], cwd=base, capture_output=True, text=True, check=False)
        if not diff.stdout:
            continue
        lines = [line for line in diff.stdout.split("\n") if not line.startswith("diff -ruN")]
        patch = "\n".join(dev_null(lines, base))
        subprocess.run(
            ["patch", "-p1", "-s", "--no-backup-if-mismatch"],
            cwd=base / "theirs",
            input=patch,
            text=True,
            check=True,
        )
        before = tree(base / "ours")
        kind = refusal(base / "ours", patch)
        assert kind in ("", "ambiguous_context"), seed
        assert tree(base / "ours") == (before if kind else tree(base / "theirs")), seed
        refused += bool(kind)
    print(f"\nrefused as ambiguous: {refused} of 500")
    assert 0 < refused < 250


def refusal(folder: Path, patch: str) -> str:
    """The kind of the error, empty where the patch was applied."""
    try:
        apply_patch(folder, patch)
    except PatchRefused as refused:
        return refused.error.kind
    return ""


def dev_null(lines: list[str], base: Path) -> list[str]:
    """`diff -N` names a missing file by its path and the beginning of time; git writes /dev/null."""
    written = []
    for line in lines:
        mark, _, name = line.partition(" ")
        path = name.partition("\t")[0]
        is_header = mark in ("---", "+++") and path.startswith(("a/", "b/")) and "\t" in name
        written.append(f"{mark} /dev/null" if is_header and not (base / path).exists() else line)
    return written
