import json

PUBLISHER = 7_305_119_120_230_006
"""One number for each topic: a random one, always the same."""


async def forward(consumer, client):
    """Publish the messages of a topic, JSON arrays of three or four terms, until cancelled.

    ``consumer``: an `aiokafka.AIOKafkaConsumer` with ``enable_auto_commit=False``.
    """
    while True:
        batches = await consumer.getmany(timeout_ms=200, max_records=1000)
        statements = [tuple(json.loads(message.value)) for batch in batches.values() for message in batch]
        if statements:
            await client.publish(statements, publisher=PUBLISHER, by_content=True)
            await consumer.commit()
