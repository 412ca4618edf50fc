"""Live captions: speech in as it is spoken, text out that stays."""
