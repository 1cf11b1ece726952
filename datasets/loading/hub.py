"""Files of the Hugging Face Hub at a pinned revision, in its own cache, where a broken download goes on."""

from pathlib import Path

from truthgym.datasets.errors import BadInput


def hub_file(source: str, repository: str, revision: str, name: str, endpoint: str | None = None) -> Path:
    """Download a file of a dataset, unless it is in the cache.

    Args:
        source: Name of the source, for the message.
        repository: The dataset's repository, such as "allenai/WildChat-1M".
        revision: Commit of it, 40 hexadecimal digits.
        name: The file's path in it.
        endpoint: Address of a mirror of the hub, or None for the hub.

    Raises:
        BadInput: It cannot be had. Names the file and what can be done.
    """
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, name, repo_type="dataset", revision=revision, endpoint=endpoint))
    except Exception as error:  # of any kind: the hub's library has changed its HTTP library more than once
        raise BadInput(
            f"{source}: {name} of {repository} at {revision} cannot be had ({type(error).__name__}: {error}); check "
            'the network and ask again (files that have come are kept), or use source="bundled"'
        ) from None
