"""`python -m harness.cli`: the command without an installed script."""

from harness.cli.main import main

main()
