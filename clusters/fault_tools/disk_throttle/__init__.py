"""Slow disks: what a broker writes and syncs is held back by a program that asked the kernel to be asked first.

The program (`program.py`) forks, and the child becomes the broker, under a filter (`calls.py`, seccomp_unotify(2)) that tells the
program of each call that writes or syncs. It lets most of them go on at once; while the disk is to be slow, those on the node's
data wait. How slow, and what was held back, stands on a page of memory that program and harness share (`page.py`). Where the
broker's threads really wait is looked up apart from all that, in /proc (`waits.py`). `throttles.py` is the harness's side.

No root, no namespace, no compiler. All but `throttles.py` is of the standard library, for Python 3.9 and newer.
"""
