"""bundled"""
