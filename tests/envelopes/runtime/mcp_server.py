"""An MCP server of the package `mcp`, a program of its own: `python mcp_server.py`."""

from __future__ import annotations

import asyncio
import os
import sys

from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations

server = MCPServer("files")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def find(word: str, limit: int = 2) -> dict[str, list[str]]:
    """Find names that contain a word."""
    return {"names": [f"{word}-{number}" for number in range(limit)]}


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def remove(name: str) -> CallToolResult:
    """Remove a file."""
    text = TextContent(text=f"{name} is locked by another program")
    return CallToolResult(content=[text], structured_content={"code": "locked"}, is_error=True)


@server.tool()
def draw() -> CallToolResult:
    """Draw a picture."""
    return CallToolResult(content=[ImageContent(data="aGVsbG8=", mime_type="image/png"), TextContent(text="a dot")])


@server.tool()
def smudge() -> CallToolResult:
    """Draw a picture whose data is no base64."""
    return CallToolResult(content=[ImageContent(data="!!", mime_type="image/png")])


@server.tool()
def refuse(code: int) -> str:
    """Answer with an error of the protocol, not with a result."""
    raise MCPError(code, "no such volume")


@server.tool()
async def sleep() -> str:
    """Sleep for ever."""
    await asyncio.sleep(3_600)
    return "awake"


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


@server.tool()
def environment() -> str:
    """The names of the variables that the server sees."""
    print("a note on standard error", file=sys.stderr, flush=True)
    return " ".join(sorted(os.environ))


if __name__ == "__main__":
    server.run("stdio")
