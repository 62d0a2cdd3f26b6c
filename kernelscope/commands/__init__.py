"""One module a verb: what the command line and the magics both do; and these two, which only adapt it."""
