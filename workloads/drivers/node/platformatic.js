'use strict'
// The driver of @platformatic/kafka. Run as: node platformatic.js DIRECTORY, the one with node_modules in it.

const fs = require('node:fs')
const path = require('node:path')
const { pathToFileURL } = require('node:url')
const { CallError, byTopic, oneOf, security, serve, sleep, split } = require('./driver.js')

const home = path.join(path.resolve(process.argv[2]), 'node_modules', '@platformatic', 'kafka')
const { version } = JSON.parse(fs.readFileSync(path.join(home, 'package.json')))
let kafka // the library: a module that is loaded when the driver starts

const FATAL = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING', 'OUT_OF_ORDER_SEQUENCE_NUMBER', 'UNKNOWN_PRODUCER_ID',
  'TRANSACTIONAL_ID_AUTHORIZATION_FAILED', 'CLUSTER_AUTHORIZATION_FAILED', 'UNSUPPORTED_VERSION', 'TRANSACTION_COORDINATOR_FENCED']

/** The errors of a tree without branches, in order. */
function leaves (error) {
  if (!error) return []
  if (error.errors?.length) return [...error.errors].flatMap(leaves)
  return error.cause?.apiId || error.cause?.errors ? leaves(error.cause) : [error]
}

/** The library's error: Kafka's name where there is one, the last of those that its tries met; else its code. */
function describe (error) {
  const found = leaves(error)
  const last = found.filter(leaf => leaf.apiId).at(-1) ?? found.at(-1) ?? error
  const name = last.apiId ?? last.code ?? error.code ?? error.name ?? 'Error'
  const text = [...new Set([error.message, ...found.map(leaf => leaf.message), last.cause?.message].filter(Boolean))].join(': ')
  return {
    name: String(name),
    code: Number.isInteger(last.apiCode) ? last.apiCode : 0,
    text: text.slice(0, 2000),
    fatal: found.some(leaf => FATAL.includes(leaf.apiId)),
    retriable: false,
    abortable: false
  }
}

const fatal = error => {
  const { name, text, code } = describe(error)
  throw new CallError(name, text, { fatal: true }, code)
}

/** A commit that failed: the documentation's example aborts then (docs/transactions.md). */
const unconfirmed = error => {
  const { name, text, code } = describe(error)
  throw new CallError(name, text, { unconfirmed: true }, code)
}

function common (settings) {
  const found = settings.values
  return {
    clientId: settings.name,
    bootstrapBrokers: settings.brokers,
    requestTimeout: found['request.timeout.ms'] ?? 30000,
    connectTimeout: found['socket.connection.setup.timeout.ms'] ?? 5000,
    metadataMaxAge: found['metadata.max.age.ms'] ?? 5000,
    retryDelay: found['retry.backoff.ms'] ?? 100,
    autocreateTopics: false,
    ...security(found)
  }
}

/** Let go of the connections of a client or a stream, whatever they wait for. */
function cut (pool) {
  for (const [, connection] of pool ?? []) connection.socket?.destroy()
}

class Producer {
  constructor (settings) {
    const found = settings.values
    this.transactional = Boolean(settings.transactional_id)
    this.acks = found.acks
    this.uncommitted = settings.documented ? unconfirmed : fatal
    this.transaction = null
    this.producer = new kafka.Producer({
      ...common(settings),
      transactionalId: settings.transactional_id ?? undefined,
      idempotent: found.idempotent,
      acks: found.acks,
      compression: found['compression.type'] ?? 'none',
      ...(found.retries === undefined ? {} : { retries: found.retries }),
      // one option for the time limit of a transaction and for that of a Produce request
      timeout: this.transactional ? found['transaction.timeout.ms'] ?? 60000 : found['request.timeout.ms'] ?? 30000,
      // the library asks for producer 0 and epoch 0 else, which a coordinator refuses to whoever takes over a transactional id (KIP-360)
      producerId: -1n,
      producerEpoch: -1
    })
  }

  /** The first transaction takes the producer id; one that is cancelled makes no request of its own. */
  async open () {
    if (this.transactional) await (await this.producer.beginTransaction()).cancel()
  }

  // What a beginning that fails leaves behind cannot be ended: "There is already an active transaction."
  async begin () {
    this.transaction = await this.producer.beginTransaction().catch(fatal)
  }

  async send ({ topic, partition, key, value, headers }) {
    const message = { topic, key: key ?? undefined, value: value ?? undefined, headers: new Map(headers.map(([name, value]) => [Buffer.from(name), value])) }
    if (partition !== null) message.partition = partition
    const to = this.transactional ? this.transaction : this.producer
    if (!to) throw new CallError('STATE', 'no transaction has begun')
    const { offsets } = await to.send({ messages: [message], acks: this.acks })
    return offsets?.length ? { partition: offsets[0].partition, offset: Number(offsets[0].offset) } : {}
  }

  // What can be tried again the library tries without end; any other error leaves its transaction neither ended nor begun anew.
  async commit () { await this.transaction.commit().catch(this.uncommitted) }
  async abort () { await this.transaction.abort().catch(fatal) }

  async sendOffsets (offsets, group) {
    const { group_id: groupId, generation: generationId, member: memberId, coordinator: coordinatorId } = group
    const metadata = { consumer: { groupId, generationId, memberId, coordinatorId } }
    try {
      await this.transaction.addConsumer({ groupId })
      for (const [name, next] of Object.entries(offsets)) {
        const [topic, partition] = split(name)
        await this.transaction.addOffset({ topic, partition, offset: BigInt(next) - 1n, metadata })
      }
    } catch (error) {
      const { name, text, code, fatal } = describe(error)
      throw new CallError(name, text, { fatal, abortable: !fatal }, code)
    }
  }

  async leave () { await this.producer.close() }

  close () {
    cut(this.producer.connections)
    this.producer.close(true).catch(() => {})
  }
}

/** `assign` is a stream in the mode `manual`: the library reads in groups, so in one with a name of its own and one member, which commits nothing. */
class Consumer {
  constructor (settings, reader) {
    this.settings = settings
    this.reader = reader
    this.positions = null // of `assign`; null: the group decides
    this.topics = []
    this.consumer = this.stream = this.starting = null
    this.assigned = []
    this.closed = false
    this.generation = 0
  }

  assign (positions) {
    this.stop()
    this.release()
    this.positions = { ...positions }
    this.topics = [...byTopic(Object.keys(positions)).keys()]
  }

  subscribe (topics) {
    this.stop()
    this.release()
    this.positions = null
    this.topics = topics
  }

  run () {
    if (this.stream || this.starting || this.closed) return
    const generation = ++this.generation
    this.starting = this.begin(generation).catch(error => { if (this.current(generation)) this.failed(error) }).finally(() => { this.starting = null })
  }

  current (generation) { return this.generation === generation && !this.closed }

  make () {
    const found = this.settings.values
    const consumer = new kafka.Consumer({
      ...common(this.settings),
      groupId: this.positions ? `${this.settings.group}-${process.pid}-${Date.now().toString(36)}` : this.settings.group,
      groupInstanceId: this.positions ? undefined : found['group.instance.id'],
      ...(found['group.protocol'] === 'consumer' && !this.positions ? { groupProtocol: 'consumer' } : {}),
      isolationLevel: found['isolation.level'] === 'read_committed' ? 1 : 0,
      autocommit: false,
      maxWaitTime: found['fetch.max.wait.ms'] ?? 500,
      minBytes: found['fetch.min.bytes'] ?? 1,
      ...(found['fetch.max.bytes'] === undefined ? {} : { maxBytes: found['fetch.max.bytes'] }),
      ...(found['max.partition.fetch.bytes'] === undefined ? {} : { maxBytesPerPartition: found['max.partition.fetch.bytes'] }),
      sessionTimeout: found['session.timeout.ms'] ?? 45000,
      rebalanceTimeout: Math.max(60000, found['session.timeout.ms'] ?? 0),
      heartbeatInterval: found['heartbeat.interval.ms'] ?? 3000
    })
    consumer.on('error', error => { if (this.consumer === consumer) this.lost(error) })
    consumer.on('consumer:group:join', ({ assignments }) => { if (this.consumer === consumer) this.joined(assignments) })
    consumer.on('consumer:group:rebalance', () => { if (this.consumer === consumer) this.revoked('revoked') })
    return consumer
  }

  async begin (generation) {
    const found = this.settings.values
    this.consumer ??= this.make()
    await this.resolve()
    const manual = this.positions && Object.entries(this.positions).map(([name]) => {
      const [topic, partition] = split(name)
      return { topic, partition, offset: BigInt(this.reader.reached.get(name)) }
    })
    const stream = await this.consumer.consume({
      topics: this.topics,
      mode: manual ? 'manual' : 'committed',
      ...(manual ? { offsets: manual } : {}),
      fallbackMode: found['auto.offset.reset'] === 'latest' ? 'latest' : 'earliest',
      autocommit: false,
      isolationLevel: found['isolation.level'] === 'read_committed' ? 1 : 0,
      maxWaitTime: found['fetch.max.wait.ms'] ?? 500
    })
    if (!this.current(generation)) return this.end(stream)
    this.stream = stream
    stream.on('error', error => { if (this.stream === stream) this.failed(error) })
    stream.on('data', message => { if (this.stream === stream) this.take(stream, message) })
    stream.on('close', () => { if (this.stream === stream) this.failed(new Error('the stream of records ended')) })
  }

  /** Turn "start" and "end" into offsets. */
  async resolve () {
    for (const [name, position] of Object.entries(this.positions ?? {})) {
      if (typeof position === 'number') continue
      this.positions[name] = (await this.list([name], position === 'start' ? -2n : -1n, 0)).get(name)
      this.reader.reached.set(name, this.positions[name])
    }
  }

  /** Offsets by ListOffsets: timestamp -1n, the end, or -2n, the start. */
  async list (names, timestamp, isolationLevel) {
    const found = new Map()
    for (const [topic, partitions] of byTopic(names)) {
      const offsets = await this.consumer.listOffsets({ topics: [topic], partitions: { [topic]: partitions }, timestamp, isolationLevel })
      for (const partition of partitions) found.set(`${topic}-${partition}`, Number(offsets.get(topic)[partition]))
    }
    return found
  }

  take (stream, { topic, partition, offset, key, value, headers, headerEntries, timestamp }) {
    const name = `${topic}-${partition}`
    if (this.positions && !(name in this.positions)) return
    const listed = (headerEntries ?? [...headers]).map(([name, value]) => [name.toString(), value ?? null])
    this.reader.push([topic, partition, Number(offset), key ?? null, value ?? null, listed, Number(timestamp)])
    if (this.reader.full && !stream.isPaused()) {
      stream.pause()
      this.reader.room = () => stream.resume()
    }
  }

  joined (assignments) {
    this.assigned = (assignments ?? []).flatMap(({ topic, partitions }) => partitions.map(partition => `${topic}-${partition}`))
    if (this.positions === null) this.reader.event({ event: 'rebalanced', kind: 'assigned', partitions: this.assigned })
  }

  revoked (kind) {
    if (this.positions !== null || this.assigned.length === 0) return
    this.reader.drop(this.assigned)
    this.reader.event({ event: 'rebalanced', kind, partitions: this.assigned })
    this.assigned = []
  }

  /** The stream failed: the next poll makes another, which continues at the positions. */
  failed (error) {
    if (this.closed) return
    this.stop()
    this.reader.fail(error)
  }

  /** The consumer itself failed: another one is made. */
  lost (error) {
    this.revoked('lost')
    this.failed(error)
    this.release()
  }

  /** End the stream. What it read and did not hand over is read again. */
  stop () {
    const stream = this.stream
    this.generation += 1
    this.stream = null
    if (!stream) return
    for (const name of Object.keys(this.positions ?? {})) {
      const next = this.reader.last.get(name)
      if (stream.readableLength === 0) this.reached(name, stream)
      else if (next !== undefined) this.reader.reached.set(name, next)
    }
    this.end(stream)
  }

  end (stream) {
    stream.removeAllListeners('data')
    stream.on('error', () => {})
    cut(stream.connections)
    stream.destroy()
  }

  release () {
    const consumer = this.consumer
    this.consumer = null
    if (!consumer) return
    cut(consumer.connections)
    const away = async () => { // it stays open, and beats for its group, until its end succeeds
      for (let i = 0; i < 20; i++) {
        try { return await consumer.close(true) } catch { await sleep(500) }
      }
    }
    away()
  }

  async seek (positions) {
    this.stop()
    for (const [name, position] of Object.entries(positions)) {
      if (!Number.isInteger(position)) this.consumer ??= this.make()
      const offset = Number.isInteger(position) ? position : (await this.list([name], position === 'start' ? -2n : -1n, 0)).get(name)
      if (this.positions) this.positions[name] = offset
      this.reader.reached.set(name, offset)
      this.reader.last.delete(name)
    }
  }

  /** The stream's position, once nothing of it is left inside the stream. */
  reached (name, stream = this.stream) {
    const [topic, partition] = split(name)
    if (stream && stream.readableLength > 0) return null
    const offset = stream?.offsetsToFetch.get(`${topic}:${partition}`)
    if (offset !== undefined) this.reader.reached.set(name, Number(offset))
    return this.reader.reached.get(name) ?? null
  }

  /** The last stable offsets, or the high watermarks where uncommitted records are read. */
  async endOffsets () {
    const names = this.positions ? Object.keys(this.positions) : this.assigned
    if (!this.stream || names.length === 0) return new Map()
    return this.list(names, -1n, this.settings.values['isolation.level'] === 'read_committed' ? 1 : 0)
  }

  async committed (partitions) {
    this.consumer ??= this.make()
    const topics = [...byTopic(partitions)].map(([topic, partitions]) => ({ topic, partitions }))
    const found = await this.consumer.listCommittedOffsets({ topics })
    return Object.fromEntries(partitions.map(name => {
      const [topic, partition] = split(name)
      const offset = Number(found.get(topic)?.[partition] ?? -1n)
      return [name, offset < 0 ? null : offset]
    }))
  }

  group () {
    const { groupId, generationId, memberId, coordinatorId } = this.consumer ?? {}
    return { group_id: groupId ?? this.settings.group, generation: generationId ?? -1, member: memberId ?? '', coordinator: coordinatorId ?? -1 }
  }

  async leave () {
    const consumer = this.consumer
    this.stop()
    await consumer?.close(true)
  }

  close () {
    this.stop()
    this.closed = true
    this.release()
  }
}

async function main () {
  const { exports } = JSON.parse(fs.readFileSync(path.join(home, 'package.json')))
  const entry = typeof exports === 'string' ? exports : exports?.['.']?.import ?? exports?.['.']?.default ?? exports?.['.'] ?? './dist/index.js'
  kafka = await import(pathToFileURL(path.join(home, entry)))
  serve({
    client: '@platformatic/kafka',
    version,
    transactions: 1,
    capabilities: ['transactions', 'idempotence', 'assign', 'ends', 'partitioner', 'headers', 'offsets-in-transactions', 'groups', 'static-members',
      'seek', 'initialise', 'leave', 'isolation'],
    knobs: {
      producer: { 'compression.type': oneOf('none', 'gzip', 'snappy', 'lz4') },
      consumer: { 'group.instance.id': String }
    },
    describe,
    Producer,
    Consumer
  })
}

main()
