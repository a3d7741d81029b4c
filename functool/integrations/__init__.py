"""Integrations with frameworks, transports and engines, one file each.

Each imports functool and its own library. The core of functool imports none of them.
"""
