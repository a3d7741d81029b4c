"""The wire formats of model providers, one file each, with one vocabulary.

Each has `definition(tool)`, `definitions(tools)`, `losses(*tools)`, `calls(message)` and
`result(result)`. A definition is a new dict each time; no dialect changes a name.
"""
