# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# For scripts that run several suites, one after another, and sum what they count. To be sourced.

SLUICE_TALLY=$(mktemp)
export SLUICE_TALLY
trap 'rm -f "$SLUICE_TALLY"' EXIT
failed=

# phase TITLE COMMAND...: a failure does not keep the next from running.
phase()
{
    local title=$1 began=$SECONDS sums
    shift
    echo
    echo "== $title"
    sums=$(wc -l <"$SLUICE_TALLY")
    if ! "$@" </dev/null; then
        failed="$failed $title;"
        # It ended before it could count: that is a failure too.
        [ "$(wc -l <"$SLUICE_TALLY")" != "$sums" ] || echo "0 1 0" >>"$SLUICE_TALLY"
    fi
    echo "== $title: $((SECONDS - began)) s"
}

# The last line is the tally of all phases.
sum()
{
    echo
    [ -z "$failed" ] || echo "failed:$failed"
    tests/tally --sum "$SLUICE_TALLY" && [ -z "$failed" ]
}
