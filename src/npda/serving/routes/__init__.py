"""The routes of the server, one subject a module."""
