"""The beginning of every HTML page: it needs nothing but itself, and asks nobody."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from npda.report.style import CSS


def head(title: str, more_css: str = "", script: str = "") -> str:
    """Up to ``</head>``. script: the one the page will hold; without one, none runs"""
    # Texts come from outside. Should one ever slip through unescaped, the browser still runs only our own script.
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"
    if script:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"{policy}; script-src 'sha256-{digest}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{CSS}{more_css}</style>
</head>
"""
