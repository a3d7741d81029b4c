"""What stands around tools: one file a layer."""
