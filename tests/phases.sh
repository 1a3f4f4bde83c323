# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# For scripts that run several suites, one after another, and sum what they count. To be sourced.

notes=$(mktemp -d)
trap 'rm -rf "$notes"' EXIT
export SLUICE_TALLY=$notes/tally
failures=$notes/failures
touch "$SLUICE_TALLY" "$failures"

# phase TITLE COMMAND... A failure does not keep the next from running. One that counted nothing ended before it could: it is one,
# too.
phase()
{
    local title=$1 began=$SECONDS tally
    shift
    echo
    echo "== $title"
    tally=$(mktemp -p "$notes")
    if ! SLUICE_TALLY=$tally "$@" </dev/null; then
        echo " $title;" >>"$failures"
        [ -s "$tally" ] || printf 'FAILED   %s: it ended before it counted a test\n0 1 0\n' "$title" >"$tally"
    fi
    cat "$tally" >>"$SLUICE_TALLY"
    rm -f "$tally"
    echo "== $title: $((SECONDS - began)) s"
}

# What failed is told once more, for a log may lack its middle; the last line is the tally of all phases.
sum()
{
    echo
    [ ! -s "$failures" ] || echo "failed:$(tr -d '\n' <"$failures")"
    tests/tally --sum "$SLUICE_TALLY" && [ ! -s "$failures" ]
}
