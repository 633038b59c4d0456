"""What every address of the dashboard reads from its query string and its form, and how costly that may be.

`name=kind` for each parameter of an address; what a form sends stands behind POST. The kinds are those of
`budget_inputs.STRATEGIES`.
"""

from __future__ import annotations

SOURCE = "call=id pasted=id sample=choice"
REPLAY = "with=choice limit=number"
EVIDENCE = "args=id result=id receipt=id run=id spaces=flag"
COLUMNS = "columns=choice column=number measure=choice by=choice order=number"
CALL_LIST = "tool=choice family=choice changed=choice changes=number sizes=number listed=number at=cursor"
FORM = "name=word title=word source=template characters=number note=word save=flag"
COMPARISON = (
    "baseline=word budget=number call=id family=choice name=word query=filter sample=number seed=number variant=choice"
)
RUN_LIST = "q=filter sort=choice view=number preset=choice after=cursor seen=word"
SEARCH = "q=pattern regex=flag any_case=flag encoding=choice errors=flag"
ARTIFACT = (
    f"{SEARCH} as=choice at=range line=range go=range offset=number time=range later=number hit=number tail=flag"
    " unseen=flag follow=flag last=flag value=number from=number count=number depth=number string=flag"
)
CALL = f"{EVIDENCE} as=choice left=choice right=choice lint=choice what=choice q=filter queue=number list=list row=id"
NOTE = "text=word half=word quote=word start=number"
ANNOTATE = "POST do=word tag=word to=word next=number query=word"
PARAMETERS = {
    "artifact-detail": ARTIFACT,
    "artifact-difference": "with=id view=choice spaces=flag row=number",
    "artifact-find": f"{SEARCH} from=number count=number listed=number next=number before=number hit=number"
    " paused=flag last=flag",
    "artifact-fold": "value=number from=number count=number depth=number string=flag",
    "artifact-follow": "from=number mark=word was=word as=choice encoding=choice",
    "artifact-picture": "",
    "artifact-raw": "",
    "artifact-reveal": f"{ARTIFACT} POST download=flag",
    "audit-export": "",
    "audit-list": "",
    "call-detail": f"{CALL} tab=choice",
    "call-annotate": ANNOTATE,
    "call-chosen": "POST do=word tag=word q=filter call=id all=flag",
    "call-notes": f"{NOTE} {EVIDENCE} queue=number POST {NOTE} query=word",
    "call-export": "POST form=choice q=filter stored=flag",
    "call-found": "find=pattern pattern=flag hit=number list=list",
    "call-half": f"{EVIDENCE} offset=number",
    "call-list": "q=filter sort=choice preset=choice columns=choice after=cursor before=cursor seen=word view=number"
    " row=id",
    "call-raw": f"{EVIDENCE} part=number",
    "call-variants": "right=choice",
    "comparison-calls": f"{COLUMNS} {CALL_LIST} after=cursor",
    "comparison-detail": f"{COLUMNS} POST do=word columns=choice",
    "comparison-export": "",
    "comparison-new": f"{COMPARISON} POST {COMPARISON}",
    "comparison-pair": f"{COLUMNS} {CALL_LIST} row=number spaces=flag view=choice",
    "comparison-review": "whole=flag POST do=word call=id note=word",
    "comparison-verdicts": "",
    "docs-index": "",
    "docs-page": "",
    "experiment-list": "",
    "followed-end": "",
    "filter-completions": "q=filter at=number",
    "healthz": "",
    "home": "",
    "import-new": "POST paths=word files=word",
    "insights-index": "q=filter from=range to=range show=choice by=choice sort=choice where=filter all=flag",
    "api-artifact": "",
    "api-artifact-text": "offset=number limit=number",
    "api-artifacts": "call=id after=id limit=number",
    "api-calls": "q=filter sort=choice after=cursor limit=number",
    "api-context": "",
    "api-experiments": "after=id limit=number",
    "api-halves": f"{EVIDENCE} part=choice offset=number limit=number",
    "api-hook": "",
    "api-openapi": "",
    "api-run": "",
    "api-runs": "q=filter sort=choice after=cursor limit=number",
    "api-unseen": "args=id result=id receipt=id run=id pointer=word offset=number limit=number",
    "api-variant": "offset=number limit=number",
    "api-limits": "",
    "api-logs": "",
    "api-mcp": "",
    "api-records": "",
    "api-traces": "",
    "token-list": "POST name=word scope=word",
    "token-revoke": "",
    "mask-change": "POST do=word",
    "mask-list": "POST do=word name=word keys=word pattern=pattern",
    "old-comparison": "",
    "old-comparison-list": "",
    "old-receipt-drift": "",
    "old-renderer": "",
    "old-renderer-list": "",
    "problem-list": "after=number file=word",
    "problem-raw": "",
    "recall-call": "",
    "recall-calls": "tool=choice budget=number column=choice after=number",
    "recall-detail": "POST do=word",
    "recall-limits": "unit=choice cap=number head=number",
    "recall-list": f"{COMPARISON} POST {COMPARISON}",
    "receipt-drift": "from=number reason=choice",
    "renderer-canonical": f"{SOURCE} offset=number",
    "renderer-detail": f"{SOURCE} variant=choice against=choice budget=number of=number head=number cut=choice"
    " row=number view=choice spaces=flag",
    "renderer-paste": "POST envelope=json",
    "call-issue": EVIDENCE,
    "run-issue": "",
    "call-share": "POST query=word",
    "run-share": "POST",
    "note-detail": "POST do=word text=word",
    "review-list": "",
    "review-next": "after=id",
    "run-annotate": ANNOTATE,
    "run-notes": f"{NOTE} queue=number POST {NOTE} query=word",
    "run-against": "only=flag skip=number pair=number view=choice args_row=number result_row=number receipt_row=number",
    "run-against-chosen": "run=id",
    "run-against-original": "",
    "run-delete": "",
    "run-detail": f"{REPLAY} q=filter after=cursor since=word skip=number time=choice queue=number",
    "run-list": f"{RUN_LIST} peek=id",
    "run-context": f"{REPLAY} after=cursor before=cursor at=word branch=number step=number message=id"
    " from=number raw=flag position=number q=filter left=choice right=choice spaces=flag"
    " list=list row=id since=word skip=number time=choice",
    "run-step": f"{CALL} go=word since=word before=cursor",
    "step-reveal": f"{CALL} POST download=flag",
    "setup": "",
    "run-replay": f"{REPLAY} from=number position=number q=filter left=choice right=choice spaces=flag"
    " list=list row=id since=word skip=number time=choice",
    "run-plan": f"{REPLAY} position=number cancelled=flag since=word skip=number time=choice",
    "run-confirmation": "call=number POST decision=word reason=word plan_hash=word policy_hash=word",
    "run-cancel": "POST",
    "run-model": "",
    "run-old-replay": "",
    "run-variants": "",
    "sign-in": "next=word POST name=word password=word next=word",
    "sign-in-link": "",
    "sign-out": "",
    "template-detail": f"{SOURCE} version=number POST {FORM}",
    "template-new": f"{SOURCE} POST {FORM}",
    "template-retire": "POST back=flag",
    "search-index": "q=filter",
    "tool-detail": "sample=choice form=choice",
    "tool-list": "all=flag",
    "view-delete": "",
    "view-save": f"POST {RUN_LIST} name=word over=word",
}
# What else is in the address while one parameter varies: the content, or the mode, in which it costs most.
SEARCHED = ({"q": "a"}, {"q": "a*?", "regex": "1"})
DIFFERENCE = ({"with": "other words"}, {"with": "other words", "view": "unified"})
SLOW = ({"with": "slow"},)
LISTED = ({}, {"q": "-tool:Edit or took:>1ms"})
CONTEXTS: dict[tuple[str, str], tuple[dict[str, str], ...]] = {
    ("artifact-detail", "q"): ({"regex": "1", "any_case": "1", "as": "text"},),
    ("artifact-reveal", "q"): ({"regex": "1", "any_case": "1", "as": "text"},),
    ("artifact-find", "q"): ({"regex": "1"}, {"regex": "1", "any_case": "1", "before": "999999"}),
    **{("artifact-find", name): SEARCHED for name in ("from", "count", "listed", "next", "before", "hit")},
    **{("artifact-detail", name): SEARCHED for name in ("hit", "offset", "as", "encoding")},
    **{("artifact-difference", name): DIFFERENCE for name in ("row", "view")},
    **{(name, "value"): ({"as": "json"},) for name in ("artifact-detail", "artifact-reveal")},
    **{("artifact-fold", name): ({"value": "0"},) for name in ("from", "count", "depth")},
    ("call-found", "find"): ({"pattern": "1"},),
    ("call-found", "hit"): ({"find": "a"}, {"find": "a*?", "pattern": "1"}),
    ("call-list", "sort"): LISTED,
    ("run-list", "sort"): LISTED,
    **{("insights-index", name): LISTED for name in ("from", "to", "by", "sort")},
    ("insights-index", "where"): ({"show": "differs"}, {"show": "differs", "q": "-tool:Edit"}),
    ("insights-index", "q"): ({}, {"show": "differs"}, {"show": "cost"}),
    ("filter-completions", "at"): ({"q": "tool:B " * 250},),
    **{("run-replay", name): SLOW for name in ("from", "position", "limit")},
    ("run-context", "after"): SLOW,
    ("run-detail", "q"): SLOW,
    ("recall-limits", "cap"): ({"unit": "tokens"}, {"unit": "lines"}),
    **{
        ("renderer-detail", name): ({"variant": "slow", "against": "slower"}, {"view": "unified"})
        for name in ("budget", "row", "head", "of")
    },
    ("template-detail", "source"): ({"characters": "4000"},),
}
CONTENTS = {
    "artifact-difference": ("words",),
    "artifact-find": ("lines", "line", "accents"),
    "artifact-detail": ("lines", "line", "accents", "json", "nested", "table", "stamps"),
    "artifact-fold": ("json", "nested", "line"),
    "artifact-reveal": ("lines", "line", "json"),
}
POSTED = ("artifact-reveal", "step-reveal")  # with the parameters of the page in the address
DESTROYS = ("sign-out", "run-delete", "run-cancel", "view-delete", "template-retire")


# The kind of a parameter that a reader of `Params` reads. Others may read text of any kind.
KIND_OF_READER = {"integer": "number", "cursor": "cursor", "choice": "choice", "flag": "flag", "uuid": "id"}
UNSEARCHED = {
    "word": "text that is stored or compared, of which no reader takes more than its longest",
    "id": "names one row",
    "flag": "has two values; CONTEXTS sets the costly one",
}


def declared(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """The kinds of the parameters in the address, and of those in the form."""
    address, _, form = PARAMETERS[name].partition("POST")
    kinds = [dict(pair.split("=") for pair in part.split()) for part in (address, form)]
    return kinds[0], kinds[1]


def searched(kind: str) -> list[tuple[str, str]]:
    """Each parameter of a kind whose value decides how much work there is: address and name."""
    rows = [
        (name, parameter)
        for name in PARAMETERS
        for part in declared(name)
        for parameter, own in part.items()
        if own == kind
    ]
    return list(dict.fromkeys(rows))  # a form may have what the address has
