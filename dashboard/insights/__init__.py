"""Numbers over many calls: by time and tool, what differs in some of them, and what requests cost."""
