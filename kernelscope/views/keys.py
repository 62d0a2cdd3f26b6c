"""Names of kernels and of specializations by which the views of a page find what another one shows of the same."""

from __future__ import annotations

import hashlib

from kernelscope.recording.model import Recording

#: Of more kernels, or of more specializations, none has a link: their names would take longer than the view.
_MOST = 20_000


def kernel_keys(recording: Recording) -> dict[int, str]:
    """Return a name for each kernel by its row, made like those of `specialization_keys`."""
    seen: dict[str, int] = {}
    return {row["dispatcher_id"]: _key(seen, *(row[name] for name in (
        "framework", "name", "module", "lineno", "options", "code_sha256")))
        for row in recording.rows("dispatchers")}


def specialization_keys(recording: Recording) -> dict[int, str]:
    """Return a name for each specialization by its row: equal in all recordings that hold the same ones.

    It is made of what the row is, so that a choice stays when a recording grows, and of nothing that is left out where
    a recording leaves the machine, such as the path of a file.
    """
    owners = kernel_keys(recording)
    seen: dict[str, int] = {}
    return {row["specialization_id"]: _key(seen, owners[row["dispatcher_id"]], *(row[name] for name in (
        "signature", "compute_capability", "launch_config"))) for row in recording.rows("specializations")}


def link_keys(recording: Recording) -> tuple[dict[int, str], dict[int, str]]:
    """Return `kernel_keys` and `specialization_keys` for links from one view to another; none where there are many."""
    if max(recording.arrow(name).num_rows for name in ("dispatchers", "specializations")) > _MOST:
        return {}, {}
    return kernel_keys(recording), specialization_keys(recording)


def _key(seen: dict[str, int], *parts: object) -> str:
    text = "\n".join(map(str, parts)).encode("utf-8", "surrogatepass")
    key = hashlib.sha256(text).hexdigest()[:12]
    seen[key] = seen.get(key, 0) + 1
    return key if seen[key] == 1 else f"{key}.{seen[key]}"
