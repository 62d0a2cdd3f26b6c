"""Work in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def run_together(*actions: Callable[[], Any]) -> None:
    """Run each action in a thread of its own; raise what the first that failed has raised."""
    failed: list[BaseException] = []

    def run(action: Callable[[], Any]) -> None:
        try:
            action()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
