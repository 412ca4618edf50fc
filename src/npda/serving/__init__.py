"""The server: an API people already know, live captions, a page, and stores that learn while people work."""
