"""Checks: the anomalies that are looked for in a history, and the judge of a run."""

if __name__ != "fencepost.checkers":  # under two names a module has two registries and unequal classes
    raise ImportError(f"this package is `fencepost.checkers`, not `{__name__}`", name=__name__)
