"""`python -m fencepost`."""

from fencepost.harness.cli.main import main

main()
