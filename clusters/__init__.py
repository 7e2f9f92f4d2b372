"""Where brokers live: providers of clusters."""

if __name__ != "fencepost.clusters":  # under two names a module has two registries and unequal classes
    raise ImportError(f"this package is `fencepost.clusters`, not `{__name__}`", name=__name__)
