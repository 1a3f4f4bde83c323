# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# For scripts that run several suites, one after another or side by side, and sum what they count. To be sourced.

notes=$(mktemp -d)
trap 'rm -rf "$notes"' EXIT
export SLUICE_TALLY=$notes/tally
failures=$notes/failures
touch "$SLUICE_TALLY" "$failures"
lane= # is this one of several that run side by side?

# A failure does not keep the next from running. One that counted nothing ended before it could: it is one, too.
run_phase()
{
    local title=$1 began=$SECONDS tally
    shift
    echo
    echo "== $title"
    tally=$(mktemp -p "$notes")
    if ! SLUICE_TALLY=$tally "$@" </dev/null; then
        echo " $title;" >>"$failures"
        [ -s "$tally" ] || echo "0 1 0" >"$tally"
    fi
    cat "$tally" >>"$SLUICE_TALLY"
    rm -f "$tally"
    echo "== $title: $((SECONDS - began)) s"
}

# phase TITLE COMMAND...
phase()
{
    local text
    if [ -z "$lane" ]; then
        run_phase "$@"
        return
    fi
    text=$(mktemp -p "$notes")
    run_phase "$@" >"$text" 2>&1
    flock "$failures" cat "$text"
    rm -f "$text"
}

# beside FUNCTION...: all at a time, for tests wait much of theirs. What a phase says is shown when it has ended.
beside()
{
    local each lanes=()
    set -m # each has a group of processes, to be ended by
    for each; do
        (
            set +m
            lane=yes
            $each
        ) &
        lanes+=("$!")
    done
    set +m
    trap 'kill -- "${lanes[@]/#/-}" 2>/dev/null; exit 1' INT TERM
    for each in "${!lanes[@]}"; do
        wait "${lanes[each]}" && continue
        echo " lane $each was ended;" >>"$failures"
        echo "0 1 0" >>"$SLUICE_TALLY"
    done
    trap - INT TERM
}

# The last line is the tally of all phases.
sum()
{
    echo
    [ ! -s "$failures" ] || echo "failed:$(tr -d '\n' <"$failures")"
    tests/tally --sum "$SLUICE_TALLY" && [ ! -s "$failures" ]
}
