"""What stands around tools: some tools go in, and the same tools with one more property come out."""
