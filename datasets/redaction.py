"""Keeps keys out of what is printed and written: by names of options, by how keys look, by variables that hold one."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HIDDEN = "[hidden]"
SHORTEST = 8
"""Characters of the shortest value of a variable that is taken for a key: others occur by chance."""
VARIABLES = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION)(?:_|$)", re.IGNORECASE
)
"""Names of variables that hold a key."""
FORMS = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)"
    r"|\b(?:sk-[\w-]{12,}|[sr]k_(?:live|test)_\w{10,}|hf_\w{12,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}|gsk_\w{20,}|xai-\w{20,}|xox[abeoprs]-[\w-]{10,}|glpat-[\w-]{16,}|npm_\w{30,}"
    r"|pypi-[\w-]{30,}|r8_\w{20,}|nvapi-[\w-]{20,}|pplx-\w{20,}|csk-\w{20,}|dapi[0-9a-f]{30,}|tgp_v1_[\w-]{20,}"
    r"|eyJ[\w-]{6,}\.[\w-]{10,}\.[\w-]*)"
    r"|(?<=://)[^/@\s:\"']{0,200}:(?!\d{1,5}[/?#])[^\s@\"'<>]{0,300}(?:@[^/\s@\"'<>]{0,300}){0,9}(?=@)"
    r"|(?<=://)[^/@\s:\"'.]{16,300}(?=@)"
    r"|(?<=\b[Bb]earer )[\w.~+/=-]{8,}|(?<=\b[Bb]asic )(?=[A-Za-z+/]{0,300}[\d=])[\w+/=-]{8,}"
    r"|(?<=[?&]X-Amz-Signature=)\w+",
    re.DOTALL,
)
"""How keys of well-known providers look, a user with a password or a key in an address, and what a header carries."""
SECRET_WORDS = {
    "apikey", "authorization", "bearer", "cookie", "credential", "credentials", "passphrase", "passwd", "password",
    "passwords", "pwd", "secret", "secrets", "sig",
}  # fmt: skip
NAMED = re.compile(
    r"""(?<![A-Za-z0-9])(?P<dashes>--)?(?P<name>[\w-]{0,60}?(?i:key|token|auth|{words}))"""
    r"""(?P<between>(?(dashes)(?:\s*=\s*|\s+)|\\*["'`]?\]?\s*(?:=>|[=:])\s*))"""
    r"""(?P<open>\\*["'])?(?P<scheme>(?:Bearer|Basic|Token|Digest|ApiKey)\s+)?"""
    r"""(?P<value>(?(open).{0,2000}?(?=(?P=open))|(?:\[hidden\]|[^\s"',;&<>()\[\]{}\\|`]+)))""".replace(
        "{words}", "|".join(sorted(SECRET_WORDS))
    ),
    re.DOTALL,
)
"""A name with its value in a text: `api_key=...`, `"token": "..."`, `--hub_token ...`."""
KEYS_OF = {"access", "account", "api", "auth", "encryption", "hub", "master", "private", "secret", "service", "signing"}
"""What stands before `key` in the name of a secret. A key of another kind selects, as that of a score."""
TOKENS_OF_TEXT = {
    "assistant", "audio", "bos", "cls", "end", "eos", "first", "image", "label", "last", "mask", "new", "next", "pad",
    "prompt", "sep", "special", "start", "stop", "think", "unk", "video",
}  # fmt: skip
"""What stands before `token` in the name of a piece of text."""
NOTHING = {"", "none", "null", "true", "false"}
PLACEHOLDER = re.compile(
    r"[.*\u2026 ]+|<.*>|\[\w+\]|\$\{?\w+\}?|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|SECRET|PASSWORD)", re.DOTALL
)
"""What stands in place of a key: the name of a variable, or a piece of text as <|im_end|>."""
LOOSE = re.compile(r"(?:^|[^a-z])(?:key|auth)$", re.IGNORECASE)
"""Names of secrets and of much else."""


def redact(text: str, folder: Path | None = None) -> str:
    """The text with each key replaced by the name of its variable, as in [OPENAI_API_KEY], or by [hidden]."""
    for name, value in sorted(_keys(folder), key=lambda key: -len(key[1])):
        text = text.replace(value, f"[{name}]")
    return FORMS.sub(HIDDEN, NAMED.sub(_hide, text))


def redacted(value: Any, name: str = "") -> Any:  # noqa: ANN401
    """A setting without keys, however deep: those under a name that says so, and texts that look like one."""
    if isinstance(value, Mapping):
        return {
            redact(key) if isinstance(key, str) else key: redacted(item, name if is_secret(name) else str(key))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        above = [item if isinstance(item, str) and item.startswith("--") else "" for item in ("", *value)]
        items = [
            _item(item, name if is_secret(name) else before[2:]) for before, item in zip(above, value, strict=False)
        ]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, str | bytes | int) and not isinstance(value, bool) and holds_key(name, value):
        return HIDDEN
    return redact(value) if isinstance(value, str) else value


def _item(item: Any, name: str) -> Any:  # noqa: ANN401
    """An item of a list without keys; of a pair, such as a header, the first is the name."""
    if isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str) and is_secret(item[0]):
        pair = (item[0], redacted(item[1], item[0]))
        return list(pair) if isinstance(item, list) else pair
    return redacted(item, name)


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a key, whatever its value looks like."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()) or [""]
    before = words[-2] if len(words) > 1 else ""
    if words[-1] == "key":
        return before in KEYS_OF or (bool(before) and name.isupper())
    return words[-1] in SECRET_WORDS or (words[-1] == "token" and before not in TOKENS_OF_TEXT)


def holds_key(name: str, value: object) -> bool:
    """Whether the value of an option is a key: as the name says, or for names such as `key` by how the value looks."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    if text.lower() in NOTHING or PLACEHOLDER.fullmatch(text):
        return False
    if is_secret(name):
        return isinstance(value, str | bytes) or not name.lower().endswith("token")
    return bool(LOOSE.search(name)) and len(text) >= 20 and bool(re.fullmatch(r"[\w.+/=~-]*(?:\d[\w.+/=~-]*){4}", text))


def _hide(match: re.Match[str]) -> str:
    """A name with its value in a text, hidden if it is a key."""
    name, between, value = match["name"], match["between"], match["value"]
    spoken = between.strip() == ":" and not match["open"] and not match["scheme"]
    if spoken and name.lower().endswith(("token", "key")) and not re.search(r"\d", value):
        return match[0]  # as in "the last token: yes"
    if not holds_key(name, value):
        return match[0]
    return match[0][: match.start("value") - match.start()] + HIDDEN


def _keys(folder: Path | None) -> Iterator[tuple[str, str]]:
    variables: list[Mapping[str, str | None]] = [os.environ]
    if folder and (folder / ".env").is_file():
        from dotenv import dotenv_values

        variables.append(dotenv_values(folder / ".env"))
    for each in variables:
        yield from ((n, v) for n, v in each.items() if v and len(v) >= SHORTEST and VARIABLES.search(n))
