"""Plans and tool loops: everything around a call except running it, as pure functions.

    schema       `read_plan`: the ActionPlan that a planner writes
    references   `resolve`: references in a step's arguments, and their values
    steps        `order_steps`, `build_calls` and `decide_retry`: from a plan to its calls and their further attempts
    gates        `Gates.admit`: whether a call may run, and with which arguments
    tool_loop    `apply_outcome`: the state of a tool loop, and the outcome of a dispatch
    verify       `rebuild_run`: a run from its records, contradictions to its plan, and proof of its confirmation

Nothing here runs a tool or names a family: the registry of tools is an argument.
"""
