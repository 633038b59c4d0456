"""The built-in tools that really run, with a folder as their world.

    CommandTools(root, …)            ExecCommand, ExecCommandBatch and the Task tools
    FileTools(root, open_artifact)   ApplyPatch and ReadArtifact
    WorkItemTools(root, path)        work items and waits, over a SQLite file
    MemoryTools(path)                what the runtime remembers, searched and read
    WebTools(policy, providers)      WebFetch and WebSearch
    apply_patch(root, patch)         changes files by a unified diff, all of them or none
    read_artifact(open, request)     lines of a stored output, or those that contain a text

The `tools()` of each class are for an executor or a turn loop.
"""
