"""Faults that can do nothing: an error before anything is hurt becomes the receipt that says so.

`inject` is decorated with `catch_no_effect`; `targets.find` and `placement.find` raise NoEffect where there is no target. What
else has to be known before anything is hurt is asked for inside `no_target_on_error`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from random import Random
from typing import TypeVar

from fencepost.harness.api import ClusterError, HarnessError, Receipt

AnyFault = TypeVar("AnyFault")
AnyCluster = TypeVar("AnyCluster")
Inject = Callable[[AnyFault, AnyCluster, Random], Receipt]


class NoEffect(ClusterError):
    """A fault can do nothing and has hurt nothing.

    receipt: the receipt of the fault; its `note` says why.
    """

    def __init__(self, receipt: Receipt, reason: object = "") -> None:
        super().__init__(str(reason) or receipt.note)
        self.receipt = receipt


def catch_no_effect(inject: Inject[AnyFault, AnyCluster]) -> Inject[AnyFault, AnyCluster]:
    """Decorate `inject`: where it raises NoEffect it returns that error's receipt."""

    @wraps(inject)
    def injected(fault: AnyFault, cluster: AnyCluster, rng: Random) -> Receipt:
        try:
            return inject(fault, cluster, rng)
        except NoEffect as error:
            return error.receipt

    return injected


@contextmanager
def no_effect_on_error(role: str, prefix: str = "") -> Iterator[None]:
    """Raise NoEffect for an error of the harness or the system inside; whatever was hurt inside is undone by then."""
    try:
        yield
    except (HarnessError, OSError) as error:
        raise NoEffect(Receipt(role=role, effective=False, note=f"{prefix}{error}"), error) from error


@contextmanager
def no_target_on_error(role: str) -> Iterator[None]:
    """Raise NoEffect, with the note `no target: ...`, for such an error inside, where nothing may be hurt."""
    with no_effect_on_error(role, "no target: "):
        yield
