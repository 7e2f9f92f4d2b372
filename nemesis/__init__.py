"""The faults."""

if __name__ != "fencepost.nemesis":  # under two names a module has two registries and unequal classes
    raise ImportError(f"this package is `fencepost.nemesis`, not `{__name__}`", name=__name__)
