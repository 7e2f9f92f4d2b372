"""Runs a module as `python -m` does, but imports nothing from the working directory: `python start_module.py MODULE ARGUMENTS`.

`python -m` searches the working directory first, whatever lies there: a run from elsewhere, a stray `json.py`. (PYTHONSAFEPATH
and `-P` prevent that since Python 3.11.) Until the path is clean, only `sys` may be imported, which is part of the interpreter.
"""

import sys

if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the directory of this file, whose modules are not for the top level
    sys.path[:] = [entry for entry in sys.path if entry]  # an empty entry of PYTHONPATH means the working directory
    sources = __file__[: -len("/fencepost/harness/system/start_module.py")]
    if sources not in sys.path:
        sys.path.append(sources)  # they may not be installed
    sys.argv[:] = sys.argv[2:] if sys.argv[1] == "-m" else sys.argv[1:]
    import runpy

    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
