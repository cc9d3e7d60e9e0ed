#!/bin/sh
# A campaign through the API: docs/campaign.sh [HOST]; docs/reference/api.md explains each call.
# Reads BASE_URL (such as http://127.0.0.1:8000) and TOKEN from the environment. HOST is a name; the default is the first host.
set -eu

: "${BASE_URL:?set it to the address of the server, for example http://127.0.0.1:8000}"
: "${TOKEN:?set it to an API token: python manage.py create_admin NAME --token 1, or POST /api/v1/tokens/}"
API="$BASE_URL/api/v1"

# call METHOD PATH [JSON]: prints the response; an error goes to stderr and ends the script.
call() {
    answer=$(curl --silent --show-error --max-time 60 --request "$1" --header "Authorization: Bearer $TOKEN" \
        --header "Content-Type: application/json" ${3:+--data "$3"} --write-out '\n%{http_code}' "$API/$2")
    status=$(printf '%s\n' "$answer" | tail -n 1)
    body=$(printf '%s\n' "$answer" | sed '$d')
    case $status in
        2*) printf '%s\n' "$body" ;;
        *) printf '%s %s: %s %s\n' "$1" "$2" "$status" "$body" >&2; return 1 ;;
    esac
}

# pick EXPRESSION: evaluates Python on the JSON of stdin, which is called it.
pick() {
    python3 -c "import json, os, sys; it = json.load(sys.stdin); print($1)"
}

echo "Hosts:"
hosts=$(call GET "hosts/?ordering=name")
printf '%s' "$hosts" | pick '"\n".join("  {id:>4}  {name}  {state}".format(**host) for host in it["results"])'
export HOST="${1:-}"
host=$(printf '%s' "$hosts" | pick 'next((h["id"] for h in it["results"] if os.environ["HOST"] in ("", h["name"])), "")')
[ -n "$host" ] || { echo "there is no host ${HOST:-yet}" >&2; exit 1; }

created=$(call POST campaigns/ "{\"recipe\": \"cpu-scaling\", \"host\": $host}")
campaign=$(printf '%s' "$created" | pick 'it["id"]')
echo "Campaign $campaign:"
call GET "campaigns/$campaign/preview/" | pick '"  {} runs, about {:.0f} s".format(len(it["runs"]), it["seconds"])'

call POST "campaigns/$campaign/start/" > /dev/null
while :; do
    now=$(call GET "campaigns/$campaign/")
    printf '%s' "$now" | pick '"  {done} of {total} runs, {failed} failed, {eta_s:.0f} s left".format(**it["progress"])'
    [ "$(printf '%s' "$now" | pick 'it["results_ready"]')" = True ] && break
    sleep 2
done

echo "Results:"
call GET "campaigns/$campaign/results/" | python3 -c '
import json, sys

table = json.load(sys.stdin)
number = lambda value, text: "" if value is None else text.format(value)
print("  {:<12} {:>7} {:>12} {:>25} {:>10}  {}".format("level", "ok", table["metric"], "95 % interval", "change", "proven"))
for row in table["levels"]:
    interval = "" if row["low"] is None else "{:,.0f} .. {:,.0f}".format(row["low"], row["high"])
    ok, proven = "{ok}/{planned}".format(**row), "{proven}/{ok}".format(**row)
    mean, change = number(row["mean"], "{:,.0f}"), number(row["relative_percent"], "{:+.2f} %")
    print("  {:<12} {:>7} {:>12} {:>25} {:>10}  {}".format(row["label"], ok, mean, interval, change, proven))
print("  " + table["sentence"])
'
echo "$BASE_URL/campaigns/$campaign/"
