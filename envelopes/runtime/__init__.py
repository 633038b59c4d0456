"""The built-in tools that really run, with a folder as their world.

    CommandTools(root, …)            ExecCommand, ExecCommandBatch and the Task tools
    FileTools(root, open_artifact)   ApplyPatch and ReadArtifact
    Workspaces(known, …)             UseWorkspace; stands for `root` in both of them
    WorkItemTools(root, path)        work items and waits, over a SQLite file
    MemoryTools(path)                what the runtime remembers, searched and read
    WebTools(policy, providers)      WebFetch and WebSearch
    AgentPlaneTools(path, tasks, …)  SpawnAgent, AgentGet and Enqueue
    McpTools(server)                 the tools of an MCP server, beside the built-in ones
    apply_patch(root, patch)         changes files by a unified diff, all of them or none
    read_artifact(open, request)     lines of a stored output, or those that contain a text

The `tools()` of each class are for an executor or a turn loop.
"""
