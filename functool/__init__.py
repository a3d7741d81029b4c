"""functool: the tool layer of Python agents."""
