"""What comes before a call and between two: pure functions, for an executor of plans or a plain tool loop.

    schema      the ActionPlan that a planner writes, strict
    references  a step's arguments with its references replaced, or where one leads nowhere
    order       what each step waits for, and the order that follows
    calls       the calls that a step asks for, a foreach's rounds included
    gates       whether a call may run, and with which arguments
    retries     whether a failed call is tried again, and when
    proof       whether a run's records prove that nothing was changed before somebody agreed
    rebuilding  what a run came to, by its records alone, and where they contradict its plan

Nothing here runs a tool, and no family is known: the registry is an argument.
"""
