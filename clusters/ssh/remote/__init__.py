"""The programs on a host of the `ssh` cluster: standard library only, Python 3.9 or newer, copied there as one zip file."""
