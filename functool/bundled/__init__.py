"""The tools that ship: files, shell, fetch, search and OpenAPI.

None is reachable before it is configured.
"""
