"""Plans and turns that run: the decisions as pure functions, and around them the dispatch, the records and the proof.

    schema        `read_plan`: the ActionPlan that a planner writes
    checks        `check_plan`: every fault of a plan, before anything runs
    references    `resolve`: references in a step's arguments, and their values
    steps         `order_steps`, `build_calls` and `decide_retry`: from a plan to its calls and their further attempts
    gates         `Gates.admit`: whether a call may run, and with which arguments; `sandbox`: the paths in them
    answers       `Tool`, `ToolFailed`, `SettledCall`: what a tool is, and every form of what it answered
    workers       threads and an event loop, which no tool can hold up
    dispatch      `Dispatcher`: a call from its gates to its settlement; `effects`: what it changed
    redaction     secrets that no record of a run contains
    recorders     `FileRecorder`: the records of a run, as they happen
    executor      `Executor`: runs a plan; `confirmation`: asks before it writes; `rounds`: the calls of one step
    tool_loop     the state of a tool loop, and the loop
    verify        `rebuild_run`: a run from its records, contradictions to its plan, and proof of its confirmation

Nothing here names a tool or a family: the tools are an argument.
"""
