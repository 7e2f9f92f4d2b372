'use strict'
// The driver of kafkajs. Run as: node kafkajs.js DIRECTORY, the one with node_modules in it.

const net = require('node:net')
const path = require('node:path')
const tls = require('node:tls')
const { createRequire } = require('node:module')
const { CallError, byTopic, oneOf, security, serve, sleep, split, unsupported } = require('./driver.js')

const load = createRequire(path.join(path.resolve(process.argv[2]), 'package.json'))
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { CompressionTypes, Kafka, logLevel } = load('kafkajs')

const ISOLATION = 'isolation.level'
const FATAL = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING', 'OUT_OF_ORDER_SEQUENCE_NUMBER', 'UNKNOWN_PRODUCER_ID',
  'TRANSACTIONAL_ID_AUTHORIZATION_FAILED', 'CLUSTER_AUTHORIZATION_FAILED', 'UNSUPPORTED_VERSION', 'TRANSACTION_COORDINATOR_FENCED']

const AGAIN = ['CONCURRENT_TRANSACTIONS', 'GROUP_LOAD_IN_PROGRESS', 'COORDINATOR_LOAD_IN_PROGRESS']

/** The errors of a chain of causes, the outermost first. */
function chain (error) {
  const found = []
  for (let e = error; e && !found.includes(e); e = e.cause ?? e.originalError) found.push(e)
  return found
}

/** kafkajs's error: Kafka's name where there is one, else the class. Fatal where kafkajs has no way on (eosManager: it never takes another epoch). */
function describe (error, flags = {}) {
  const causes = chain(error)
  const kafkas = causes.find(e => e.type)
  const name = kafkas?.type ?? error.name ?? 'Error'
  const code = Number.isInteger(kafkas?.code) ? kafkas.code : 0
  const text = [...new Set(causes.map(e => e.message))].join(': ')
  return { name, code, text, fatal: FATAL.includes(name), retriable: false, abortable: false, ...flags }
}

const fatal = error => {
  const { name, text, code } = describe(error)
  throw new CallError(name, text, { fatal: true }, code)
}

/** A commit that failed: the documentation's example aborts then (docs/Transactions.md). */
const unconfirmed = error => {
  const { name, text, code } = describe(error)
  throw new CallError(name, text, { unconfirmed: true }, code)
}

function log ({ namespace, level, log: { message, ...more } }) {
  if (level <= logLevel.WARN) process.stderr.write(`${namespace}: ${message} ${more.error ?? ''}\n`)
}

/** A Kafka object that can be let go of at once: its sockets, and its tries without end. */
class Connections {
  constructor (settings) {
    const found = settings.values
    this.sockets = new Set()
    this.closed = false
    const { tls: ssl, sasl } = security(found)
    this.retry = {
      initialRetryTime: found['retry.backoff.ms'] ?? 100,
      maxRetryTime: found['retry.backoff.max.ms'] ?? 1000
    }
    this.kafka = new Kafka({
      clientId: settings.name,
      brokers: settings.brokers,
      ssl,
      sasl: sasl && { ...sasl, mechanism: sasl.mechanism.toLowerCase() },
      requestTimeout: found['request.timeout.ms'] ?? 30000,
      connectionTimeout: found['socket.connection.setup.timeout.ms'] ?? 10000,
      enforceRequestTimeout: true,
      retry: { initialRetryTime: found['reconnect.backoff.ms'] ?? 50, maxRetryTime: found['reconnect.backoff.max.ms'] ?? 1000, retries: 5 },
      socketFactory: options => this.socket(options),
      logLevel: logLevel.WARN,
      logCreator: () => log
    })
  }

  /** A limit of tries that falls to none when all is let go of: kafkajs compares it before each. */
  tries (count) {
    return { valueOf: () => (this.closed ? 0 : count) }
  }

  socket ({ host, port, ssl, onConnect }) {
    if (this.closed) throw new Error('closed')
    const options = { host, port, ...(ssl && !net.isIP(host) ? { servername: host } : {}), ...ssl }
    const socket = ssl ? tls.connect(options, onConnect) : net.connect(options, onConnect)
    this.sockets.add(socket)
    socket.once('close', () => this.sockets.delete(socket))
    return socket
  }

  close () {
    this.closed = true
    for (const socket of this.sockets) socket.destroy()
  }
}

class Producer {
  constructor (settings) {
    const found = settings.values
    this.connections = new Connections(settings)
    this.transactional = Boolean(settings.transactional_id)
    this.acks = found.acks
    this.uncommitted = settings.documented ? unconfirmed : fatal
    this.timeout = found['request.timeout.ms'] ?? 30000
    this.compression = found['compression.type'] === 'gzip' ? CompressionTypes.GZIP : undefined
    this.transaction = null
    const retries = found.retries ?? (found.idempotent ? Number.MAX_SAFE_INTEGER : 5)
    this.producer = this.connections.kafka.producer({
      idempotent: found.idempotent,
      maxInFlightRequests: found.idempotent ? 1 : found['max.in.flight.requests.per.connection'],
      transactionalId: settings.transactional_id ?? undefined,
      transactionTimeout: found['transaction.timeout.ms'] ?? 60000,
      metadataMaxAge: found['metadata.max.age.ms'] ?? 300000,
      allowAutoTopicCreation: false,
      retry: { ...this.connections.retry, retries: this.connections.tries(retries) }
    })
  }

  /** The first transaction of a kafkajs producer takes the producer id; one without records is ended without a request. */
  async open () {
    await this.producer.connect()
    if (this.transactional) await (await this.producer.transaction()).abort()
  }

  async begin () {
    this.transaction = await this.producer.transaction().catch(fatal)
  }

  async send ({ topic, partition, key, value, headers }) {
    const message = { key, value, headers: grouped(headers), ...(partition === null ? {} : { partition }) }
    const to = this.transactional ? this.transaction : this.producer
    if (!to) throw new CallError('STATE', 'no transaction has begun')
    const [place] = await to.send({ topic, acks: this.acks, timeout: this.timeout, compression: this.compression, messages: [message] })
    return place ? { partition: place.partition, offset: Number(place.baseOffset) } : {}
  }

  // After any error kafkajs stays in the state COMMITTING or ABORTING, from which no call leads on (transactionStateMachine).
  async commit () { await this.transaction.commit().catch(this.uncommitted) }
  async abort () { await this.transaction.abort().catch(fatal) }

  async sendOffsets (offsets, { group_id: consumerGroupId }) {
    const topics = [...byTopic(Object.keys(offsets))].map(([topic, partitions]) => ({
      topic,
      partitions: partitions.map(partition => ({ partition, offset: String(offsets[`${topic}-${partition}`]) }))
    }))
    await this.transaction.sendOffsets({ consumerGroupId, topics }).catch(error => {
      const { name, text, code, fatal } = describe(error)
      const retriable = AGAIN.includes(name) // kafkajs tries AddOffsetsToTxn once, also while the last transaction is being completed
      throw new CallError(name, text, { fatal, retriable, abortable: !fatal && !retriable }, code)
    })
  }

  async leave () { await this.producer.disconnect() }
  close () { this.connections.close() }
}

/** Headers as kafkajs takes them: an object of names. */
function grouped (headers) {
  const found = {}
  for (const [name, value] of headers) found[name] = name in found ? [found[name], value].flat() : value
  return found
}

const listed = headers =>
  Object.entries(headers ?? {}).flatMap(([name, found]) => [found].flat().map(value => [name, value ?? null]))

/** Refuses headers of which an object cannot keep the order. */
function accept ({ headers }) {
  const again = listed(grouped(headers))
  if (again.some(([name], i) => name !== headers[i][0])) throw unsupported('kafkajs keeps no order of headers like these')
}

/**
 * kafkajs reads only in groups. `assign` is a group of one member with a name of its own, which commits nothing; each batch is taken where it
 * begins at the position expected, and the consumer is sent there when it does not (after another join it begins anew).
 */
class Consumer {
  constructor (settings, reader) {
    this.settings = settings
    this.reader = reader
    this.connections = null
    this.consumer = null
    this.positions = null // of `assign`; null: the group decides
    this.topics = []
    this.unsettled = new Set() // partitions that were sought: only a batch from exactly there will do
    this.assigned = []
    this.closed = false
    this.starting = null
    this.generation = 0
  }

  assign (positions) {
    this.stop()
    this.positions = { ...positions }
    this.topics = [...byTopic(Object.keys(positions)).keys()]
  }

  subscribe (topics) {
    this.stop()
    this.positions = null
    this.topics = topics
  }

  run () {
    if (this.consumer || this.starting || this.closed) return
    this.starting = this.begin().catch(error => this.crashed(error)).finally(() => { this.starting = null })
  }

  connect () {
    if (!this.connections) {
      this.connections = new Connections(this.settings)
      this.admin = this.connections.kafka.admin({ retry: { ...this.connections.retry, retries: this.connections.tries(5) } })
      this.connected = this.admin.connect()
      this.connected.catch(() => {})
    }
    return this.connected
  }

  async begin () {
    const generation = ++this.generation
    await this.connect()
    await this.resolve()
    const found = this.settings.values
    const connections = this.connections
    const consumer = connections.kafka.consumer({
      groupId: this.positions ? `${this.settings.group}-${process.pid}-${Date.now().toString(36)}-${generation}` : this.settings.group,
      readUncommitted: found[ISOLATION] !== 'read_committed',
      maxWaitTimeInMs: found['fetch.max.wait.ms'] ?? 500,
      minBytes: found['fetch.min.bytes'] ?? 1,
      maxBytes: found['fetch.max.bytes'],
      maxBytesPerPartition: found['max.partition.fetch.bytes'],
      sessionTimeout: found['session.timeout.ms'] ?? 30000,
      heartbeatInterval: found['heartbeat.interval.ms'] ?? 3000,
      rebalanceTimeout: 60000,
      metadataMaxAge: found['metadata.max.age.ms'] ?? 300000,
      allowAutoTopicCreation: false,
      retry: { ...connections.retry, retries: connections.tries(5), restartOnFailure: async () => false }
    })
    const current = () => this.generation === generation && !this.closed
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { if (current()) this.joined(consumer, payload.memberAssignment) })
    consumer.on(consumer.events.REBALANCING, () => { if (current()) this.revoked('revoked') })
    consumer.on(consumer.events.CRASH, ({ payload }) => { if (current()) this.crashed(payload.error) })
    consumer.on(consumer.events.START_BATCH_PROCESS, ({ payload }) => { if (current()) this.skipped(payload) })
    await consumer.connect()
    await consumer.subscribe({ topics: this.topics, fromBeginning: found['auto.offset.reset'] !== 'latest' })
    if (!current()) return
    this.consumer = consumer
    await consumer.run({ autoCommit: false, eachBatch: payload => (current() ? this.batch(consumer, payload, current) : undefined) })
  }

  /** Turn "start" and "end" into offsets. */
  async resolve () {
    const words = Object.entries(this.positions ?? {}).filter(([, position]) => typeof position !== 'number')
    if (words.length === 0) return
    const ends = await this.offsets(words.map(([name]) => name))
    for (const [name, position] of words) {
      this.positions[name] = ends.get(name)[position === 'start' ? 'low' : 'high']
      this.reader.reached.set(name, this.positions[name])
    }
  }

  async offsets (names) {
    const found = new Map()
    await this.connect()
    for (const [topic] of byTopic(names)) {
      for (const { partition, low, high } of await this.admin.fetchTopicOffsets(topic)) {
        found.set(`${topic}-${partition}`, { low: Number(low), high: Number(high) })
      }
    }
    return found
  }

  joined (consumer, assignment) {
    this.assigned = Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map(partition => `${topic}-${partition}`))
    if (this.positions === null) {
      for (const name of this.assigned) this.reader.reached.delete(name)
      this.reader.event({ event: 'rebalanced', kind: 'assigned', partitions: this.assigned })
      return
    }
    for (const name of this.assigned) {
      const [topic, partition] = split(name)
      if (name in this.positions) this.place(consumer, name)
      else consumer.pause([{ topic, partitions: [partition] }])
    }
  }

  revoked (kind) {
    if (this.positions !== null) return
    this.reader.drop(this.assigned)
    this.reader.event({ event: 'rebalanced', kind, partitions: this.assigned })
    this.assigned = []
  }

  place (consumer, name) {
    const [topic, partition] = split(name)
    this.unsettled.add(name)
    consumer.seek({ topic, partition, offset: String(this.reader.reached.get(name)) })
  }

  async batch (consumer, { batch, heartbeat, isRunning }, current) {
    const name = `${batch.topic}-${batch.partition}`
    if (this.positions && !(name in this.positions)) return
    if (!(await this.fits(consumer, name, Number(batch.fetchedOffset))) || !current()) return
    this.unsettled.delete(name)
    for (const { offset, key, value, headers, timestamp } of batch.messages) {
      this.reader.push([batch.topic, batch.partition, Number(offset), key, value, listed(headers), Number(timestamp)])
    }
    this.reader.reached.set(name, Number(batch.lastOffset()) + 1)
    while (this.reader.full && isRunning() && current()) {
      await Promise.race([new Promise(resolve => { this.reader.room = resolve }), sleep(500)])
      await heartbeat()
    }
  }

  /** Whether a batch fetched from there continues what was read; else the consumer is sent to where it should, unless nothing is there any more. */
  async fits (consumer, name, offset) {
    const expected = this.reader.reached.get(name)
    if (offset === expected || expected === undefined) return true
    if (this.positions === null && !this.unsettled.has(name)) return true
    const { low, high } = (await this.offsets([name])).get(name)
    if (this.reader.reached.get(name) !== expected) return false // sought meanwhile
    if (expected < low || expected > high) return true // auto.offset.reset
    this.place(consumer, name)
    return false
  }

  /** A batch of markers and aborted records only: kafkajs shows its offsets, and not the batch. */
  skipped ({ topic, partition, batchSize, firstOffset, lastOffset }) {
    const name = `${topic}-${partition}`
    if (batchSize !== 0 || (this.positions && !(name in this.positions))) return
    const [expected, first] = [this.reader.reached.get(name), firstOffset === null ? null : Number(firstOffset)]
    const follows = expected === undefined || first === expected || (first !== null && first > expected && !this.unsettled.has(name))
    if (!follows) return
    this.unsettled.delete(name)
    this.reader.reached.set(name, Number(lastOffset) + 1)
  }

  crashed (error) {
    if (this.closed) return
    this.revoked('lost')
    this.stop()
    this.reader.fail(error)
  }

  /** Let go of the consumer; the next poll makes another, which continues at the positions. */
  stop () {
    this.generation += 1
    this.connections?.close()
    this.connections = this.consumer = null
    if (this.positions) for (const name of Object.keys(this.positions)) this.positions[name] = this.reader.reached.get(name) ?? this.positions[name]
  }

  async seek (positions) {
    await this.connect()
    const ends = Object.values(positions).every(Number.isInteger) ? new Map() : await this.offsets(Object.keys(positions))
    for (const [name, position] of Object.entries(positions)) {
      const offset = Number.isInteger(position) ? position : ends.get(name)[position === 'start' ? 'low' : 'high']
      if (this.positions) this.positions[name] = offset
      this.reader.reached.set(name, offset)
      if (this.consumer) this.place(this.consumer, name)
    }
  }

  reached (name) {
    return this.unsettled.has(name) ? null : this.reader.reached.get(name) ?? null
  }

  /** The high watermarks: kafkajs does not show the last stable offset, which may be lower and is never higher. */
  async endOffsets () {
    const names = this.positions ? Object.keys(this.positions) : this.assigned
    if (!this.consumer || names.length === 0) return new Map()
    const found = await this.offsets(names)
    return new Map(names.filter(name => found.has(name)).map(name => [name, found.get(name).high]))
  }

  async committed (partitions) {
    await this.connect()
    const topics = [...byTopic(partitions).keys()]
    const found = await this.admin.fetchOffsets({ groupId: this.settings.group, topics })
    const offsets = new Map(found.flatMap(({ topic, partitions }) => partitions.map(at => [`${topic}-${at.partition}`, Number(at.offset)])))
    return Object.fromEntries(partitions.map(name => [name, (offsets.get(name) ?? -1) < 0 ? null : offsets.get(name)]))
  }

  group () { return { group_id: this.settings.group } }

  async leave () { if (this.consumer) await this.consumer.disconnect() }

  close () {
    this.closed = true
    this.stop()
  }
}

serve({
  client: 'kafkajs',
  version: load('kafkajs/package.json').version,
  transactions: 1,
  capabilities: ['transactions', 'idempotence', 'assign', 'ends', 'partitioner', 'headers', 'offsets-in-transactions', 'groups', 'seek',
    'initialise', 'leave', 'isolation'],
  knobs: { producer: { 'compression.type': oneOf('none', 'gzip') }, consumer: {} },
  describe,
  accept,
  Producer,
  Consumer
})
