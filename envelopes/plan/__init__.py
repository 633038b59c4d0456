"""What comes before a call: pure functions of what is known then, for an executor of plans or a plain tool loop.

    schema      the ActionPlan that a planner writes, strict
    references  a step's arguments with its references replaced, or where one leads nowhere
    gates       whether a call may run, and with which arguments

Nothing here runs a tool, and no family is known: the registry is an argument.
"""
