"""The slow twin of `wrong-error`: a plain loop over the errors of each process, written from the definition."""

from __future__ import annotations

from support.reference import FlatHistory, Matches, fencings

REFUSED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


def wrong_errors(h: FlatHistory) -> Matches:
    """The first record of each transaction with an error that lets its producer go on, although it is fenced or broken."""
    fenced, broken, matches = fencings(h), set(), set()
    for number, op in enumerate(h.ops):
        if op["f"] == "initialise":
            broken.discard(op["process"])
        for error in op["errors"] if op["f"] == "txn" else ():
            of_record = any(each["name"] == error["name"] and each["call"] == "deliver" for each in op["errors"])
            late = number in fenced and error["time"] > fenced[number]
            refused = late and error["name"] in REFUSED and error["call"] == "commit" and not of_record
            goes_on = not error["fatal"] and (error["retriable"] or error["abortable"])
            if (refused or op["process"] in broken) and goes_on:
                matches |= {min(send["v"] for send in h.sends if send["op"] == number)}
            if error["fatal"]:
                broken.add(op["process"])
        if op["f"] == "txn" and op["type"] == "ok" and op["process"] in broken:
            matches |= {min(send["v"] for send in h.sends if send["op"] == number)}
    return matches


TWINS = {"wrong-error": wrong_errors}
