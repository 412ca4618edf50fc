"""Retrievers: queries in, neighbours out. One protocol, several ways to answer."""
