"""A client of the gateway, run in a pod of the image: ``python3 over_http.py URL TOKEN NAME COUNT``.

It publishes COUNT triples, queries them, and reads them as server-sent events; it prints the three counts as JSON.
It imports nothing but the standard library.
"""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request

ANSWER_SECONDS = 60


def main(url: str, token: str, name: str, count: int) -> dict[str, int]:
    """Return the numbers of triples published, rows queried, and solutions received, doubled ones included."""
    headers = {"Authorization": f"Bearer {token}"}
    predicate = f"<urn:cluster-check:{name}>"
    data = "".join(f'<urn:cluster-check:{at}> {predicate} "{at}" .\n' for at in range(count)).encode()
    publish = urllib.request.Request(
        f"{url}/publish", data, headers | {"Content-Type": "application/n-triples"}, method="POST"
    )
    with urllib.request.urlopen(publish, timeout=ANSWER_SECONDS) as answer:
        answer.read()
    query = urllib.parse.urlencode({"query": f"SELECT ?o WHERE {{ ?s {predicate} ?o }}"})
    ask = urllib.request.Request(
        f"{url}/sparql?{query}", headers=headers | {"Accept": "application/sparql-results+json"}
    )
    with urllib.request.urlopen(ask, timeout=ANSWER_SECONDS) as answer:
        rows = json.load(answer)["results"]["bindings"]
    return {"published": count, "queried": len(rows), "received": _events(f"{url}/events?{query}", headers, count)}


def _events(url: str, headers: dict[str, str], count: int) -> int:
    received = 0
    with urllib.request.urlopen(
        urllib.request.Request(f"{url}&since=beginning", headers=headers), timeout=ANSWER_SECONDS
    ) as events:
        for line in events:
            if line.startswith(b"data:") and b"addedResults" in line:
                received += len(json.loads(line[5:])["addedResults"]["results"]["bindings"])
            if received >= count:
                break
    return received


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))))
