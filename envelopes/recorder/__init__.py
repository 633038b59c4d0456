"""Records the runs of any agent runtime, to disk first and then to a dashboard.

    recorder = LiveRecorder(Path("spool"), "http://127.0.0.1:8000", token)
    with recorder.run(title="Fix the build") as run:
        call = run.call("read_file", {"path": "a.txt"})
        run.result(call, {"text": "…", "lines": 30})      what the tool returned
        run.receipt(call, "…")                            what the model was sent

`LiveRun.tool` decorates a function, so that each of its calls is recorded; `LiveRun.envelope` records a call of this
library with both halves. What a call of these methods has recorded is on disk; it reaches the server later, once or
again, and the server stores it once. Needs nothing but the standard library and msgspec.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import msgspec
from msgspec import UNSET

from envelopes.recorder.shipper import Shipper
from envelopes.recorder.spool import Spool
from envelopes.schema.receipt import ImagePart, Receipt
from envelopes.schema.result import CanonicalResult
from envelopes.schema.timestamps import format_instant
from envelopes.text.untrusted_json import dump_json

__all__ = ["LiveRecorder", "LiveRun"]

VERSION = 1
CLOSE_TIMEOUT_S = 5.0
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class LiveRecorder:
    """Keeps a spool, and ships it where a server is given.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, LiveRecorder(Path(folder)) as recorder:
    ...     with recorder.run("r1", title="A sum") as run:
    ...         call = run.call("add", {"a": 1, "b": 2})
    ...         run.result(call, 3)
    ...         run.receipt(call, "3")
    ...     sum(segment.read_bytes().count(b"\\n") for segment in Path(folder).glob("*.jsonl"))
    5
    """

    def __init__(
        self, spool: Path, server: str | None = None, token: str | None = None, *, is_synced: bool = True
    ) -> None:
        """`is_synced`: each record survives a power cut; without it, the end of the process only.

        Raises ValueError for a server that is no http address.
        """
        self._spool = Spool(spool, is_synced=is_synced)
        self._shipper = Shipper(self._spool, server, token) if server is not None else None

    @contextmanager
    def run(self, run: str | None = None, **members: Any) -> Iterator[LiveRun]:
        """Records a run from its beginning to its end; `members` are the fields of its record, as `title` and `model`.

        Without a name it gets one that no other run has.
        """
        live = LiveRun(self, run or uuid.uuid4().hex)
        live.record("run", started_at=_now(), **members)
        try:
            yield live
        finally:
            live.record("run", ended_at=_now())

    def add(self, lines: list[bytes]) -> None:
        self._spool.append(lines)
        if self._shipper is not None:
            self._shipper.wake()

    def add_artifact(self, content: bytes) -> str:
        return self._spool.add_artifact(content)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """Ships for up to `timeout` seconds; True when the server has everything. The rest stays in the spool."""
        is_shipped = self._shipper.close(timeout) if self._shipper is not None else self._spool.is_empty()
        self._spool.close()
        return is_shipped

    def __enter__(self) -> LiveRecorder:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class LiveRun:
    """The records of one run. Any thread may add to it; `LiveRecorder.run` makes one."""

    def __init__(self, recorder: LiveRecorder, name: str) -> None:
        self.name = name
        self._recorder = recorder
        self._lock = threading.Lock()
        self._position = 0
        self._receipts: Counter[str] = Counter()  # by call

    def record(self, kind: str, **members: Any) -> None:
        """Adds one native record, for fields that no other method has.

        Members that are None are left out, except for `complete`: a tool may return it. Values that JSON cannot hold
        are written as their `repr`, and their paths listed in `not_json`.
        """
        replaced: list[str] = []
        present = {
            name: _to_json(value, name, replaced)
            for name, value in members.items()
            if value is not None or name == "complete"
        }
        if replaced:
            present["not_json"] = replaced
        with self._lock:  # positions give the order, whatever the clock does
            self._position = max(self._position + 1, time.time_ns() // 1_000)
            line = {"v": VERSION, "type": kind, "run": self.name, "position": self._position, **present}
            self._recorder.add([dump_json(line) + b"\n"])

    def message(self, role: str, text: str, **members: Any) -> None:
        self.record("message", role=role, text=text, at=_now(), **members)

    def call(self, tool: str, args: Any, *, call: str | None = None, **members: Any) -> str:
        """Records that a tool is called, before it runs; returns the call's id within the run."""
        call = call or uuid.uuid4().hex
        self.record("call", call=call, tool=tool, args=args, at=_now(), **members)
        return call

    def result(self, call: str, complete: Any = UNSET, *, is_error: bool | None = None, **members: Any) -> None:
        """Records what the tool returned, complete, None too: the half that the runtime owns.

        Without `complete` it records how the call ended, and no result.
        """
        members |= {} if complete is UNSET else {"complete": complete}
        self.record("result", call=call, is_error=is_error, ended_at=_now(), **members)

    def receipt(self, call: str, text: str, **members: Any) -> None:
        """Records what the model was sent: a text, or `parts`. A second one of the call replaces the first."""
        members |= {} if "parts" in members else {"text": text}
        self.record("receipt", call=call, seq=self._count_receipt(call), at=_now(), **members)

    def envelope(self, call: str, canonical: CanonicalResult, receipt: Receipt, **members: Any) -> None:
        """Records both halves of a call that this library projected and rendered; the receipt is exact."""
        self.record("result", call=call, canonical=canonical.to_json(), ended_at=_now(), **members)
        images = [_image(part) for part in receipt.parts if isinstance(part, ImagePart)]
        texts = [{"type": "text", "text": receipt.text}] if receipt.text else []
        sent: dict[str, Any] = {"parts": [*texts, *images]} if images else {"text": receipt.text}
        self.record("receipt", call=call, fidelity="exact", seq=self._count_receipt(call), at=_now(), **sent)

    def artifact(self, call: str, content: bytes, *, path: str, role: str = "file") -> str:
        """Records a file of a call with its content; returns its sha256."""
        sha256 = self._recorder.add_artifact(content)
        self.record("artifact", call=call, role=role, path=path, sha256=sha256, size=len(content))
        return sha256

    def tool(
        self, function: Callable[Parameters, Returned], *, receipt: Callable[[Returned], str] | None = None
    ) -> Callable[Parameters, Returned]:
        """Returns the function so that each of its calls is recorded, with its arguments by name.

        `receipt` makes of a result the text that the model is sent. Without it only the result is recorded, and the
        loop that sends the text records it with `receipt`. An exception is recorded and raised again.
        """
        parameters = inspect.signature(function)

        def begin(*args: Parameters.args, **kwargs: Parameters.kwargs) -> str:
            bound = parameters.bind(*args, **kwargs)
            bound.apply_defaults()
            return self.call(function.__name__, dict(bound.arguments))

        def end(call: str, started: str, returned: Returned) -> Returned:
            self.result(call, returned, is_error=False, started_at=started)
            if receipt is not None:
                self.receipt(call, receipt(returned))
            return returned

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
                call, started = begin(*args, **kwargs), _now()
                with self.failing(call, started):
                    returned = await function(*args, **kwargs)
                return end(call, started, returned)

            return cast("Callable[Parameters, Returned]", run_async)

        @functools.wraps(function)
        def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
            call, started = begin(*args, **kwargs), _now()
            with self.failing(call, started):
                returned = function(*args, **kwargs)
            return end(call, started, returned)

        return run

    def _count_receipt(self, call: str) -> int:
        with self._lock:
            self._receipts[call] += 1
            return self._receipts[call]

    @contextmanager
    def failing(self, call: str, started_at: str | None = None) -> Iterator[None]:
        """Records an exception of its block as the error of the call, and raises it again."""
        try:
            yield
        except BaseException as error:
            lines = traceback.format_exception_only(error)
            problem = {"kind": type(error).__name__, "message": "".join(lines).strip()}
            status = "error" if isinstance(error, Exception) else "cancelled"
            self.result(call, error=problem, status=status, is_error=True, started_at=started_at)
            raise


def _now() -> str:
    return format_instant(time.time())


def _image(part: ImagePart) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _to_json(value: Any, path: str, replaced: list[str]) -> Any:
    """The value as JSON; of what has no form there the `repr`, with its path in `replaced`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): _to_json(child, f"{path}.{key}", replaced) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(child, f"{path}[{index}]", replaced) for index, child in enumerate(value)]
    if isinstance(value, float) and math.isfinite(value):
        return value
    dump = getattr(value, "model_dump", None)  # of pydantic
    try:
        if not isinstance(value, float):
            return _to_json(dump() if dump is not None else msgspec.to_builtins(value), path, replaced)
    except (TypeError, ValueError, RecursionError):
        pass
    replaced.append(path)
    return repr(value)
