"""The program: from a campaign file to a verdict and its report."""

if __name__ != "fencepost.harness":  # under two names a module has two registries and unequal classes
    raise ImportError(f"this package is `fencepost.harness`, not `{__name__}`", name=__name__)
