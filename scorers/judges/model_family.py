"""Which models are of one family: made by the same maker, and so likely to share tastes."""

MAKERS = {
    "openai": ("gpt", "o1", "o3", "o4", "chatgpt", "codex"),
    "anthropic": ("claude",),
    "google": ("gemini", "gemma", "palm"),
    "meta": ("llama",),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral"),
    "qwen": ("qwen", "qwq"),
    "deepseek": ("deepseek",),
    "grok": ("grok",),
    "cohere": ("command", "aya"),
    "microsoft": ("phi",),
    "moonshot": ("kimi",),
    "zai": ("glm",),
}
"""How the names of each maker's models begin."""


def family_of(model: str) -> str:
    """The maker of a model by its name, or else its provider.

    Of `provider/.../name` the name decides where it begins as one of `MAKERS`, so that a model is of one family through
    whatever provider it is reached; a distillation is of the maker that its name begins with. Else it is the provider.

    >>> family_of("openrouter/anthropic/claude-opus-4.1"), family_of("openai/gpt-5"), family_of("reference/judge")
    ('anthropic', 'openai', 'reference')
    """
    provider, _, rest = model.lower().partition("/")
    name = (rest or provider).rpartition("/")[2]
    for maker, beginnings in MAKERS.items():
        if any(name == start or (name.startswith(start) and not name[len(start)].isalpha()) for start in beginnings):
            return maker
    return provider
