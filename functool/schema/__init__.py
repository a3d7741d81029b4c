"""Signature and docstring to schema: the plain form, the strict form, and questions to schemas."""
