"""The process in which templates run: it reads a request a line and answers with a line, and can do nothing else.

    {"source": "…", "canonical": {…}}        -> {"pieces": [[text, pointer, start, end, role], …]}
    {"source": "…"}                          -> {"pieces": []} when it can be parsed
    {"source": "…", "canonical": {…}, "missing": true}
                                             -> {"pieces": [[line, field, nearest], …]}, fields that the envelope lacks
    any failure                              -> {"reason": "…", "line": 3}

Once it is ready it has a limit of memory and may write no file, and an audit hook refuses files, sockets, processes
and imports, whatever code asks for them. Its own processor time is limited here; the parent also watches the clock
and ends the process when it does not answer.
"""

from __future__ import annotations

import importlib
import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

MEMORY_BYTES = 96 * 1024 * 1024  # beyond what the process has when it is ready
SECONDS = 0.4
REFUSED_EVENTS = (  # prefixes of audit events
    *("open", "os.", "socket.", "subprocess.", "shutil.", "ctypes."),
    *("import", "exec", "compile", "sys._", "pty."),
)


class TimeUsedUp(Exception):
    pass


class Forbidden(Exception):
    pass


def main() -> None:
    sys.path[:] = json.loads(sys.argv[1])
    sys.path.insert(0, str(Path(__file__).parent))
    language = importlib.import_module("template_language")
    sys.path.pop(0)
    # Run what imports modules late, before imports are refused.
    answer({"source": "{{ summary_text }}", "canonical": {"summary_text": "ready"}}, language)
    for source in (
        "{% if %}",
        "{{ a | nope }}",
        "{{ result | plus: 'x' }}",
        "{% for a in (1..3) %}{{ a }}{% endfor %}",
    ):
        answer({"source": source, "canonical": {}}, language)
    answer({"source": "{{ result.nme }}", "canonical": {"result": {"name": ""}}, "missing": True}, language)
    restrict_process()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line), language)) + "\n")
        sys.stdout.flush()


def restrict_process() -> None:
    signal.signal(signal.SIGVTALRM, raise_time_used_up)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    if pages:
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + MEMORY_BYTES
    for name, limit in limits.items():
        resource.setrlimit(name, (limit, limit))
    sys.addaudithook(refuse_event)


def refuse_event(event: str, _arguments: object) -> None:
    if event.startswith(REFUSED_EVENTS):
        raise Forbidden(f"a template may not do this: {event}")


def raise_time_used_up(*_: object) -> NoReturn:
    raise TimeUsedUp


def answer(request: dict[str, Any], language: Any) -> dict[str, Any]:
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        if "canonical" not in request:
            language.parse_template(request["source"])
            return {"pieces": []}
        if "missing" in request:
            return {"pieces": language.find_missing_fields(request["source"], request["canonical"])}
        return {"pieces": language.render_template(request["source"], request["canonical"])}
    except TimeUsedUp:
        return {"reason": f"it takes longer than {SECONDS:g} seconds", "line": None}
    except MemoryError:
        return {"reason": f"it needs more than {MEMORY_BYTES // 1024 // 1024} MB of memory", "line": None}
    except RecursionError:
        return {"reason": "it is nested too deeply", "line": None}
    except language.LiquidError as error:
        return {"reason": str(error.message), "line": language.error_line(error)}
    except Exception as error:
        return {"reason": f"{type(error).__name__}: {error}"[:300], "line": None}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


if __name__ == "__main__":
    main()
