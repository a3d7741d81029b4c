"""The playground: one page that shows tools, calls them, and answers what waits for approval."""
