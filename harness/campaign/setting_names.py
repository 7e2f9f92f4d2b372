"""Names of librdkafka's settings, to complete them and to suggest one for a name that librdkafka does not know.

What a setting may be, librdkafka judges itself (`harness.campaign.client_settings`): it does not list its names.
"""

_COMMON = """
allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
broker.address.family broker.address.ttl broker.version.fallback client.dns.lookup client.id client.rack
connections.max.idle.ms debug enable.metrics.push enable.random.seed enable.sasl.oauthbearer.unsecure.jwt
enable.ssl.certificate.verification https.ca.location https.ca.pem internal.termination.signal log.connection.close
log.queue log.thread.name log_level max.in.flight max.in.flight.requests.per.connection message.copy.max.bytes
message.max.bytes metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy plugin.library.paths receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms
retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms sasl.oauthbearer.client.id
sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.method
sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms ssl.ca.location ssl.ca.pem
ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
ssl.endpoint.identification.algorithm ssl.engine.id ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location
ssl.keystore.password ssl.providers ssl.sigalgs.list statistics.interval.ms topic.blacklist
topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
topic.metadata.refresh.sparse
"""
_CONSUMER = """
auto.commit.interval.ms auto.offset.reset check.crcs consume.callback.max.messages coordinator.query.interval.ms
enable.auto.commit enable.auto.offset.store enable.partition.eof fetch.error.backoff.ms fetch.max.bytes
fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.instance.id group.protocol
group.protocol.type group.remote.assignor heartbeat.interval.ms isolation.level max.partition.fetch.bytes
max.poll.interval.ms partition.assignment.strategy queued.max.messages.kbytes queued.min.messages session.timeout.ms
"""
_PRODUCER = """
acks batch.num.messages batch.size compression.codec compression.level compression.type delivery.report.only.error
delivery.timeout.ms enable.gapless.guarantee enable.idempotence linger.ms message.send.max.retries message.timeout.ms
partitioner queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
queue.buffering.max.ms queuing.strategy request.required.acks request.timeout.ms retries sticky.partitioning.linger.ms
transaction.timeout.ms
"""
SETTINGS = {
    "producer": tuple(sorted((*_COMMON.split(), *_PRODUCER.split()))),
    "consumer": tuple(sorted((*_COMMON.split(), *_CONSUMER.split()))),
}
"""Names by kind of client."""
