"""Signs and verifies as the `webagents` package does, one JSON line at a time.

{"sign": {method, url, body, form, agent, seeds}} answers the fields of the signature.
{"verify": {method, target, fields, body, authority, now, keys, repeat}} answers {"principal"} or {"code"}.
"""

import asyncio
import base64
import importlib.util
import json
import sys
import types
from pathlib import Path

# Only the modules of the signature are loaded: the rest of the package wants a hundred others.
site = Path(importlib.util.find_spec("webagents").submodule_search_locations[0])
for name in ("webagents", "webagents.crypto"):
    package = types.ModuleType(name)
    package.__path__ = [str(site.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: E402
from webagents.crypto import http_signature as signer  # noqa: E402
from webagents.crypto import web_bot_auth_verify as verifier  # noqa: E402


def sign(order):
    keys = [
        signer.SigningKey.from_private_key(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)))
        for seed in order["seeds"]
    ]
    signed = signer.sign_request(
        method=order["method"],
        url=order["url"],
        body=base64.b64decode(order["body"]),
        agent_url=order["agent"],
        keys=keys,
        form=order["form"],
    )
    return signed.headers


class Fixed:
    """The key set that is found wherever it is looked for."""

    def __init__(self, keys):
        self.keys = keys

    async def get(self, discovery):
        keys, reason = verifier.parse_key_set({"keys": self.keys}, well_known_directory=discovery.type == "directory")
        if keys is None:
            return verifier.KeySetOutcome(code="key_set_invalid", reason=reason)
        return verifier.KeySetOutcome(keys=tuple(keys), ttl_s=300)


class Fields:
    """Fields of which a name may come twice."""

    def __init__(self, lines):
        self.lines = lines

    def getlist(self, name):
        return [value for known, value in self.lines if known.lower() == name]


def verify(order):
    request = verifier.InboundRequest(
        method=order["method"],
        target=order["target"],
        headers=Fields(order["fields"]),
        body=base64.b64decode(order["body"]),
    )
    nonces = verifier.MemoryNonceStore()
    for _ in range(order.get("repeat", 1)):
        outcome = asyncio.run(
            verifier.verify_web_bot_auth(
                request,
                authorities=[order["authority"]],
                scheme="https",
                key_sets=Fixed(order["keys"]),
                nonces=nonces,
                now=order["now"],
            )
        )
    return {"principal": outcome.agent.principal} if outcome.ok else {"code": outcome.refusal.code}


for line in sys.stdin:
    order = json.loads(line)
    answer = sign(order["sign"]) if "sign" in order else verify(order["verify"])
    print(json.dumps(answer), flush=True)
