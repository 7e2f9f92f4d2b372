#!/bin/sh
# A night of tests, as the files beside this one perform it: night.sh [CAMPAIGN] [OPTION OF `fencepost campaign`]...
# FENCEPOST: the command (default: fencepost). FENCEPOST_RESULTS: where runs land (results). OUTPUT: where junit.xml and the page
# over all runs go, for a CI system to take (public). The exit code is that of the campaign.
set -u
fencepost=${FENCEPOST:-fencepost}
output=${OUTPUT:-public}
campaign=${1:-nightly}
[ $# -eq 0 ] || shift

mkdir -p "$output"
"$fencepost" doctor
"$fencepost" campaign "$campaign" --junit "$output/junit.xml" "$@"
code=$?
"$fencepost" report --site "$output/site" || echo "the page over all runs could not be written" >&2
exit "$code"
