"""Providers of clusters: the places where brokers live."""

if __name__ != "fencepost.clusters":  # under two names a module has two registries and unequal classes
    raise ImportError(f"this package is `fencepost.clusters`, not `{__name__}`", name=__name__)
