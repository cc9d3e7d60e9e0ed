#!/bin/sh
# What a DBA types for ten values: keep what is there, write, read back; later write what was kept, and read back.
# usage: settings_by_hand.sh apply|restore KEPT [NAME=VALUE...]
# NAME is a sysctl, or a file. KEPT holds a line "NAME=VALUE" for each.
set -eu
what=$1 kept=$2
shift 2

get() {
    case $1 in
    /*) cat "$1" ;;
    *) sysctl -n "$1" ;;
    esac
}

# A file that lists its choices shows the chosen one in brackets.
chosen() {
    case $1 in
    *\[*\]*) one=${1#*\[} && echo "${one%%\]*}" ;;
    *) echo "$1" ;;
    esac
}

set_and_look() {
    case $1 in
    /*) echo "$2" >"$1" ;;
    *) sysctl -qw "$1=$2" ;;
    esac
    found=$(chosen "$(get "$1")")
    [ "$found" = "$2" ] || { echo "$1 is $found, not $2" >&2 && exit 1; }
}

if [ "$what" = apply ]; then
    for pair; do
        echo "${pair%%=*}=$(chosen "$(get "${pair%%=*}")")" >>"$kept"
        set_and_look "${pair%%=*}" "${pair#*=}"
    done
else
    while IFS='=' read -r name value; do
        set_and_look "$name" "$value"
    done <"$kept"
fi
