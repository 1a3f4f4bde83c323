# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# For scripts that run several suites, one after another, and add up what they count. To be sourced.

notes=$(mktemp -d)
trap 'rm -rf "$notes"' EXIT
export SLUICE_TALLY=$notes/tally
failures=$notes/failures
times=$notes/times
touch "$SLUICE_TALLY" "$failures" "$times"

# phase TITLE COMMAND...
# If it fails the next phase runs all the same. A phase that counts no tests counts as one test itself.
phase()
{
    local title=$1 began=$SECONDS tally took
    shift
    echo
    echo "== $title"
    tally=$(mktemp -p "$notes")
    if SLUICE_TALLY=$tally "$@" </dev/null; then
        [ -s "$tally" ] || echo 1 0 0 >"$tally"
    else
        echo " $title;" >>"$failures"
        [ -s "$tally" ] || printf 'FAILED   %s: it ended before it counted a test\n0 1 0\n' "$title" >"$tally"
    fi
    cat "$tally" >>"$SLUICE_TALLY"
    rm -f "$tally"
    took=$(printf '%d:%02d' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)))
    printf '  %-20s %6s\n' "$title" "$took" >>"$times"
    echo "== $title: $took"
}

# Prints how long each phase took and, as a log may lack its middle, once more what failed. The last line is the tally.
sum()
{
    echo
    [ ! -s "$failures" ] || echo "failed:$(tr -d '\n' <"$failures")"
    echo "minutes"
    cat "$times"
    printf '  %-20s %6s\n' all "$(printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)))"
    tests/tally --sum "$SLUICE_TALLY" && [ ! -s "$failures" ]
}
