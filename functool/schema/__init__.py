"""Turn signatures and docstrings into JSON Schemas, plain and strict, and read JSON Schemas."""
