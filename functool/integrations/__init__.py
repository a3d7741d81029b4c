"""Frameworks, transports and engines, one file each.

They import the face and their own library; nothing imports them.
"""
