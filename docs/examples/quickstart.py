import asyncio

import p2prdf


async def main():
    async with p2prdf.connect("127.0.0.1:7401,127.0.0.1:7402") as client:
        subscription = await client.subscribe("SELECT ?who ?n { ?who <urn:assists> ?n }")
        await client.publish([("<urn:bob>", "<urn:assists>", 5)])
        async for solution in subscription:
            print(solution["who"], solution.value("n"))
            break


asyncio.run(main())
