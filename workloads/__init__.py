"""Workloads, and the clients that perform them."""

if (
    __name__ != "fencepost.workloads"
):  # a module that is loaded under two names has two registries, and classes that are not equal
    raise ImportError(f"this package is `fencepost.workloads`, not `{__name__}`", name=__name__)
