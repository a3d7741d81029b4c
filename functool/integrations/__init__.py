"""Frameworks, transports and engines, one file each.

They import the face and their own library; the core imports none of them.
"""
