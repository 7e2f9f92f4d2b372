"""Slow disks: a parent process of the broker delays the broker's writes and syncs.

The throttle program (`throttle_program.py`) forks, and the child becomes the broker, under a filter (`system_calls.py`,
seccomp_unotify(2)) by which the kernel notifies the program of each system call that writes or syncs. The program lets most of
them continue at once; while the disk is slow, those on the node's data wait. Delay, bandwidth and counts are in a page of memory
that program and harness share (`shared_page.py`). How long the broker's threads really wait is measured independently, from /proc
(`thread_waits.py`). `throttles.py` is the harness's side.

No root, no namespace, no compiler. All but `throttles.py` is of the standard library, for Python 3.9 and newer.
"""
