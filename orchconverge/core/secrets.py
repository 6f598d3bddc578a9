"""Secrets by their shape: what goes to a forge, or into a record that is shown, carries none that can be told as one."""

from __future__ import annotations

import re
from typing import Final

_SHAPES: Final = re.compile(
    r"gh[oprsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|\bsk-[\w-]{20,}|\bxox[abeoprs]-[\w-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\beyJ[\w-]{10,2000}\.[\w-]{10,}\.[\w-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
    re.DOTALL,
)
"""GitHub, GitLab, OpenAI and Anthropic, Slack, AWS, Google, signed tokens, private keys, and passwords in addresses."""
MASK: Final = "***"


def masked(text: str, *known: str) -> str:
    """The text without secrets: those that are ``known``, and what has the shape of one."""
    for secret in known:
        text = text.replace(secret, MASK) if secret else text
    return _SHAPES.sub(MASK, text)


def masked_in(value: object, *known: str) -> object:
    """The same for each text in a value made of lists and dictionaries."""
    if isinstance(value, str):
        return masked(value, *known)
    if isinstance(value, dict):
        return {name: masked_in(each, *known) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked_in(each, *known) for each in value]
    return value
