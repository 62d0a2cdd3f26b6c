"""Recording: the session that hooks what is to be seen, the journal, what recording costs, and recovery."""
