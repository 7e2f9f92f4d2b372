'use strict'
// What every driver in JavaScript shares: frames, the loop over requests, sends under way, records read ahead (docs/client-drivers.md).
// A library is an object: {client, version, transactions, capabilities, knobs, refusals, describe, Producer, Consumer}.

const fs = require('node:fs')

const PROTOCOL = 1
const HEADER = 4
const LARGEST = 64 << 20
const READ_AHEAD = { records: 5000, bytes: 16 << 20 }
const BEGIN_MS = 30_000 // `begin` has no time limit of its own
const END_EVERY_MS = 250 // how often an idle poll asks for the ends of partitions

/** An error in the words of the protocol. flags: fatal, retriable, abortable, unconfirmed. */
class CallError extends Error {
  constructor (name, text, flags = {}, code = 0) {
    super(text)
    this.answer = { name, code, text, fatal: false, retriable: false, abortable: false, unconfirmed: false, ...flags }
  }
}

const timedOut = text => new CallError('TIMED_OUT', text, { retriable: true })
const unsupported = text => new CallError('UNSUPPORTED', text)
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

/** The promise's result, or the error `late` after so many milliseconds; the promise goes on. */
async function within (promise, ms, late) {
  let timer
  const alarm = new Promise((resolve, reject) => { timer = setTimeout(() => reject(late()), Math.max(0, ms)) })
  try {
    return await Promise.race([promise, alarm])
  } finally {
    clearTimeout(timer)
  }
}

/** A partition's name as [topic, number]. */
function split (partition) {
  const at = partition.lastIndexOf('-')
  return [partition.slice(0, at), Number(partition.slice(at + 1))]
}

/** Partition names as a map from topic to numbers. */
function byTopic (partitions) {
  const topics = new Map()
  for (const [topic, number] of partitions.map(split)) topics.set(topic, [...(topics.get(topic) ?? []), number])
  return topics
}

const bytes = text => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const text = value => (value === null || value === undefined ? null : Buffer.from(value).toString('base64'))

// --- settings -------------------------------------------------------------------------------------------------------------

const truth = value => value === true || String(value).toLowerCase() === 'true'
const number = value => {
  if (!Number.isFinite(Number(value)) || value === '') throw new Error('not a number')
  return Number(value)
}
const acks = value => {
  if (['all', '-1'].includes(String(value))) return -1
  if (['0', '1'].includes(String(value))) return Number(value)
  throw new Error('one of all, 1, 0')
}
const oneOf = (...values) => value => {
  if (!values.includes(String(value))) throw new Error(`one of ${values.join(', ')}`)
  return String(value)
}
const noLinger = value => {
  if (number(value) !== 0) throw new Error('this library does not collect records: only 0')
  return 0
}

const SECURITY = {
  'security.protocol': oneOf('PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'),
  'sasl.mechanism': oneOf('PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'),
  'sasl.mechanisms': oneOf('PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'),
  'sasl.username': String,
  'sasl.password': String,
  'ssl.ca.location': String,
  'ssl.certificate.location': String,
  'ssl.key.location': String,
  'ssl.key.password': String,
  'ssl.endpoint.identification.algorithm': oneOf('https', 'none', '')
}
const COMMON = {
  ...SECURITY,
  'request.timeout.ms': number,
  'reconnect.backoff.ms': number,
  'reconnect.backoff.max.ms': number,
  'retry.backoff.ms': number,
  'retry.backoff.max.ms': number,
  'metadata.max.age.ms': number,
  'socket.connection.setup.timeout.ms': number
}
// Settings of Kafka's own clients that are understood, each with what makes a value of it, or throws why there is none.
const KNOBS = {
  producer: {
    ...COMMON,
    acks,
    'enable.idempotence': truth,
    'linger.ms': noLinger,
    'delivery.timeout.ms': number, // neither library gives a record up by time: `flush` and `commit` have limits of their own
    'transaction.timeout.ms': number,
    'max.in.flight.requests.per.connection': number,
    retries: number
  },
  consumer: {
    ...COMMON,
    'isolation.level': oneOf('read_committed', 'read_uncommitted'),
    'auto.offset.reset': oneOf('earliest', 'latest'),
    'fetch.max.wait.ms': number,
    'fetch.min.bytes': number,
    'fetch.max.bytes': number,
    'max.partition.fetch.bytes': number,
    'session.timeout.ms': number,
    'heartbeat.interval.ms': number
  }
}

/** Settings as values, with idempotence and sends one by one as they follow from the others. */
function values (knobs, settings) {
  return Object.fromEntries(Object.entries(settings ?? {}).map(([key, value]) => [key, knobs[key](value)]))
}

function producerValues (library, settings, transactional) {
  const found = values({ ...KNOBS.producer, ...library.knobs.producer }, settings)
  found.acks ??= -1
  found.idempotent = transactional || (found['enable.idempotence'] ?? found.acks === -1)
  // More than one request under way: sends are handed over at once. Else each waits for the one before it, as an application that awaits them.
  found.together = (found['max.in.flight.requests.per.connection'] ?? (found.idempotent ? 1 : 5)) > 1
  return found
}

/** What is refused of one side's settings: [side, key, text]. */
function refused (library, side, settings) {
  const knobs = { ...KNOBS[side], ...library.knobs[side] }
  const found = []
  for (const [key, value] of Object.entries(settings ?? {})) {
    if (!Object.hasOwn(knobs, key)) found.push([side, key, `not known to the driver of ${library.client}`])
    else try { knobs[key](value) } catch (error) { found.push([side, key, error.message]) }
  }
  if (found.length === 0 && side === 'producer' && settings) {
    const { idempotent, acks } = producerValues(library, settings, false)
    if (idempotent && acks !== -1) found.push([side, 'acks', 'idempotence needs acks=all'])
  }
  return found
}

/** TLS and SASL options in Node's words: {tls, sasl}, both perhaps undefined. */
function security (found) {
  const protocol = found['security.protocol'] ?? 'PLAINTEXT'
  const read = key => (found[key] ? fs.readFileSync(found[key]) : undefined)
  const tls = protocol.endsWith('SSL')
    ? {
        ca: read('ssl.ca.location'),
        cert: read('ssl.certificate.location'),
        key: read('ssl.key.location'),
        passphrase: found['ssl.key.password'],
        ...(['none', ''].includes(found['ssl.endpoint.identification.algorithm']) ? { checkServerIdentity: () => undefined } : {})
      }
    : undefined
  const mechanism = found['sasl.mechanism'] ?? found['sasl.mechanisms'] ?? 'PLAIN'
  const sasl = protocol.startsWith('SASL')
    ? { mechanism, username: found['sasl.username'], password: found['sasl.password'] }
    : undefined
  return { tls, sasl }
}

// --- the producing side ---------------------------------------------------------------------------------------------------

/** A library's producer, its transaction, and the sends whose promises have not settled. */
class Sender {
  constructor (library, settings, event) {
    this.library = library
    this.settings = settings
    this.event = event
    this.together = settings.values.together
    this.producer = new library.Producer(settings)
    this.pending = new Map() // record -> {promise, transaction}
    this.last = Promise.resolve()
    this.transaction = 0
    this.failure = null // of a send of this transaction
    this.ending = null
    this.closed = false
  }

  async open (ms) {
    await within(this.producer.open(), ms, () => new CallError('TIMED_OUT', `no answer to the producer's start after ${ms} ms`))
  }

  async begin () {
    this.failure = null
    this.transaction += 1
    await within(this.producer.begin(), BEGIN_MS, () => new CallError('TIMED_OUT', `begin took ${BEGIN_MS} ms`, { fatal: true }))
  }

  /** One library call for one record, so that its promise says what became of this record and no other. */
  send (record) {
    const transaction = this.transaction
    const start = () => {
      if (this.closed) throw new CallError('CLOSED', 'the producer was closed before this record was handed to the library')
      if (!this.together && this.settings.transactional_id && this.failure) {
        throw new CallError('NOT_SENT', 'an earlier send of the transaction failed: this record was not handed to the library')
      }
      return this.producer.send(record).then(place => this.acknowledged(record, place))
    }
    const sent = this.together ? Promise.resolve().then(start) : this.last.then(start)
    const promise = sent.then(
      place => this.delivered(record.record, { partition: place.partition ?? null, offset: place.offset ?? null }),
      error => {
        const answer = this.described(error)
        if (transaction === this.transaction) this.failure ??= answer
        this.delivered(record.record, { error: answer })
      }
    )
    this.last = promise
    this.pending.set(record.record, { promise, transaction })
  }

  /** The place of a record, if the library's answer is an acknowledgement of it: a promise that resolves is not enough. */
  acknowledged ({ partition }, place) {
    if (this.settings.values.acks === 0) return {}
    if (place.partition === undefined) throw new CallError('NOT_ACKNOWLEDGED', 'the send resolved without an answer of a broker for the record')
    if (partition !== null && partition !== place.partition) {
      throw new CallError('WRONG_PARTITION', `the library wrote the record to partition ${place.partition}, at ${place.offset}, instead of ${partition}`)
    }
    return place
  }

  delivered (record, fate) {
    this.pending.delete(record)
    if (!this.closed) this.event({ event: 'delivered', record, ...fate })
  }

  described (error) {
    return error instanceof CallError ? error.answer : this.library.describe(error)
  }

  async settled (ms, transaction = null) {
    const waiting = () => [...this.pending.values()].filter(send => transaction === null || send.transaction === transaction)
    const all = (async () => { while (waiting().length) await Promise.all(waiting().map(send => send.promise)) })()
    await within(all, ms, () => timedOut(`${waiting().length} sends are not settled after ${ms} ms`))
  }

  async flush (ms) {
    await this.settled(ms)
  }

  /** A commit waits for the sends of its transaction, and is refused when one failed. An abort waits where sends are made one by one. */
  async end (kind, ms) {
    const deadline = Date.now() + ms
    if (this.ending && this.ending.kind !== kind) throw new CallError('STATE', `${this.ending.kind} is under way`)
    if (!this.ending) {
      if (kind === 'commit' || !this.together) await this.settled(ms, this.transaction)
      if (kind === 'commit' && this.failure) throw this.refusal()
      this.ending = { kind, promise: this.producer[kind]() }
      this.ending.promise.catch(() => {})
    }
    let late = false
    try {
      const left = deadline - Date.now()
      await within(this.ending.promise, left, () => { late = true; return timedOut(`${kind} goes on after ${ms} ms`) })
    } finally {
      if (!late) this.ending = null // else the next call waits for the same end
    }
  }

  /** The commit that is not attempted. Both libraries' documentation has an application abort then, whatever the send's error was. */
  refusal () {
    const { name, text, code } = this.failure
    const fatal = this.failure.fatal && !this.settings.documented
    return new CallError(name, text, { fatal, abortable: !fatal }, code)
  }

  /** Where sends are made one by one, after those that were made before. */
  async sendOffsets (offsets, group, ms) {
    if (!this.together) await this.settled(ms, this.transaction)
    if (!this.together && this.failure) throw this.refusal()
    await within(this.producer.sendOffsets(offsets, group), ms, () => timedOut(`send_offsets goes on after ${ms} ms`))
  }

  async leave (ms) {
    await this.settled(ms)
    await within(this.producer.leave(), ms, () => timedOut(`the producer's end goes on after ${ms} ms`))
  }

  close () {
    this.closed = true
    this.pending.clear()
    this.producer.close()
  }
}

// --- the reading side -----------------------------------------------------------------------------------------------------

/** Records that a library's consumer has read ahead, and the positions. Offsets are numbers. */
class Reader {
  constructor (library, settings, event) {
    this.settings = settings
    this.event = event
    this.consumer = new library.Consumer(settings, this)
    this.start = null // `assign` or `subscribe`, once it was called
    this.queue = []
    this.bytes = 0
    this.counts = new Map() // partition -> records in the queue
    this.last = new Map() // partition -> the offset behind its newest record here
    this.reached = new Map() // partition -> the library's position
    this.failure = null
    this.probe = null
    this.probed = 0
    this.ends = {}
    this.wake = () => {}
    this.room = () => {}
  }

  get full () {
    return this.queue.length >= READ_AHEAD.records || this.bytes >= READ_AHEAD.bytes
  }

  /** Forget what was read by another assignment. */
  begin (start) {
    this.start = start
    this.drop([...this.counts.keys()])
    for (const positions of [this.last, this.reached]) positions.clear()
    this.ends = {}
  }

  /** From the library: a record [topic, partition, offset, key, value, headers, timestamp]. */
  push (record) {
    const name = `${record[0]}-${record[1]}`
    this.queue.push(record)
    this.bytes += record[4]?.length ?? 0
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
    this.last.set(name, record[2] + 1)
    this.wake()
  }

  /** From the library: its consumer failed, and is to be started again by the next poll. */
  fail (error) {
    this.failure ??= error
    this.wake()
  }

  /** Drop what was read ahead of these partitions. */
  drop (names) {
    this.queue = this.queue.filter(record => !names.includes(`${record[0]}-${record[1]}`))
    this.bytes = this.queue.reduce((sum, record) => sum + (record[4]?.length ?? 0), 0)
    for (const name of names) this.counts.delete(name)
    for (const name of names) delete this.ends[name]
  }

  position (name) {
    const first = this.counts.get(name) ? this.queue.find(record => `${record[0]}-${record[1]}` === name) : undefined
    return first ? first[2] : this.reached.get(name) ?? null
  }

  async poll (ms, limit) {
    const deadline = Date.now() + ms
    if (this.start === null) return this.idle(ms)
    if (this.failure) {
      const error = this.failure
      this.failure = null
      throw error
    }
    this.consumer.run() // at once when it runs; in the background else
    this.look()
    while (this.queue.length === 0 && !this.failure && Date.now() < deadline) {
      await Promise.race([new Promise(resolve => { this.wake = resolve }), sleep(deadline - Date.now())])
    }
    return { records: this.take(limit), ends: this.ends }
  }

  async idle (ms) {
    await sleep(ms)
    return { records: [], ends: {} }
  }

  take (limit) {
    const records = []
    let size = 0
    for (const record of this.queue) {
      if (records.length >= limit || (records.length && size + (record[4]?.length ?? 0) > READ_AHEAD.bytes)) break
      size += record[4]?.length ?? 0
      records.push(record)
    }
    this.queue.splice(0, records.length)
    this.bytes -= size
    for (const record of records) {
      const name = `${record[0]}-${record[1]}`
      this.counts.set(name, this.counts.get(name) - 1)
    }
    if (!this.full) this.room()
    return records.map(([topic, partition, offset, key, value, headers, timestamp]) =>
      [topic, partition, offset, text(key), text(value), headers.map(([name, bytes]) => [name, text(bytes)]), timestamp])
  }

  /** Ask, now and then, where the partitions end: a partition is at its end when nothing of it is read ahead, and the position is there. */
  look () {
    if (this.probe || Date.now() - this.probed < END_EVERY_MS || this.queue.length) return
    this.probe = this.consumer.endOffsets().then(
      found => { for (const [name, end] of found) this.compare(name, end) },
      error => this.event({ event: 'log', level: 'warning', text: `the ends of partitions: ${error.message}` })
    ).finally(() => {
      this.probe = null
      this.probed = Date.now()
    })
  }

  compare (name, end) {
    const reached = this.consumer.reached(name)
    if (reached !== null && reached >= end && !this.counts.get(name)) this.ends[name] = reached
  }

  async leave (ms) {
    await within(this.consumer.leave(), ms, () => timedOut(`the consumer's end goes on after ${ms} ms`))
  }

  close () {
    this.consumer.close()
    this.wake()
    this.room()
  }
}

// --- the requests ---------------------------------------------------------------------------------------------------------

class Driver {
  constructor (library, event) {
    this.library = library
    this.event = event
    this.sender = null
    this.reader = null
    this.stray = null // an error that nobody waited for
  }

  async answer (request) {
    const call = request.call
    if (this.stray && !['hello', 'check', 'close'].includes(call)) {
      const error = this.stray
      this.stray = null
      throw new CallError(error.name, `not caught by the library: ${error.stack}`, { fatal: true })
    }
    if (!CALLS.has(call)) throw unsupported(`${call}: no such call`)
    return (await this[call](request)) ?? {}
  }

  hello ({ protocols }) {
    if (!protocols.includes(PROTOCOL)) throw unsupported(`protocol ${PROTOCOL} is spoken, not ${protocols}`)
    const { client, version, transactions, capabilities } = this.library
    return { protocol: PROTOCOL, client, version, runtime: `Node.js ${process.versions.node}`, capabilities, transactions }
  }

  check ({ producer, consumer }) {
    return { refused: [...refused(this.library, 'producer', producer), ...refused(this.library, 'consumer', consumer)] }
  }

  async open (request) {
    this.close()
    const { name, bootstrap, transactional_id, group, producer, consumer, recovery, timeout_ms } = request
    for (const [side, key, text] of this.check({ producer, consumer }).refused) throw new CallError('CONFIG', `${side} ${key}: ${text}`)
    const common = { name, group, brokers: bootstrap.split(',').map(broker => broker.trim()), transactional_id }
    if (consumer) {
      const found = values({ ...KNOBS.consumer, ...this.library.knobs.consumer }, consumer)
      this.reader = new Reader(this.library, { ...common, values: found }, this.event)
    }
    if (producer) {
      const found = producerValues(this.library, producer, Boolean(transactional_id))
      this.producing = { ...common, values: found, documented: recovery !== 'new-producer' }
      await this.make(timeout_ms)
    }
  }

  async make (ms) {
    this.sender = new Sender(this.library, this.producing, this.event)
    await this.sender.open(ms)
  }

  async initialise ({ timeout_ms }) {
    this.writer().close()
    await this.make(timeout_ms)
  }

  writer () {
    if (!this.sender) throw new CallError('STATE', 'there is no producer')
    return this.sender
  }

  polling () {
    if (!this.reader) throw new CallError('STATE', 'there is no consumer')
    return this.reader
  }

  begin () { return this.writer().begin() }
  flush ({ timeout_ms }) { return this.writer().flush(timeout_ms) }
  commit ({ timeout_ms }) { return this.writer().end('commit', timeout_ms) }
  abort ({ timeout_ms }) { return this.writer().end('abort', timeout_ms) }

  send (request) {
    const { record, topic, partition, key, value, headers } = request
    const decoded = { record, topic, partition, key: bytes(key), value: bytes(value) }
    decoded.headers = (headers ?? []).map(([name, text]) => [name, bytes(text)])
    this.library.accept?.(decoded)
    this.writer().send(decoded)
  }

  send_offsets ({ offsets, group, timeout_ms }) { return this.writer().sendOffsets(offsets, group, timeout_ms) }

  assign ({ positions }) {
    const reader = this.polling()
    reader.begin('assign')
    reader.consumer.assign(positions)
    for (const [name, position] of Object.entries(positions)) {
      if (typeof position === 'number') reader.reached.set(name, position)
    }
  }

  subscribe ({ topics }) {
    const reader = this.polling()
    reader.begin('subscribe')
    reader.consumer.subscribe(topics)
    reader.consumer.run()
  }

  async seek ({ positions }) {
    const reader = this.polling()
    reader.drop(Object.keys(positions))
    await within(reader.consumer.seek(positions), BEGIN_MS, () => timedOut('seek'))
  }

  position ({ partitions }) {
    const reader = this.polling()
    for (const name of partitions) reader.consumer.reached(name)
    return { positions: Object.fromEntries(partitions.map(name => [name, reader.position(name)])) }
  }

  async committed ({ partitions, timeout_ms }) {
    const found = this.polling().consumer.committed(partitions)
    return { offsets: await within(found, timeout_ms, () => timedOut('the committed offsets')) }
  }

  group () { return { group: this.polling().consumer.group() } }
  poll ({ timeout_ms, limit }) { return this.polling().poll(timeout_ms, limit) }

  async leave ({ timeout_ms }) {
    if (this.sender) await this.sender.leave(timeout_ms)
    if (this.reader) await this.reader.leave(timeout_ms)
    this.close()
  }

  close () {
    this.sender?.close()
    this.reader?.close()
    this.sender = this.reader = null
  }
}

const CALLS = new Set(['hello', 'check', 'open', 'initialise', 'begin', 'send', 'flush', 'send_offsets', 'commit', 'abort', 'assign',
  'subscribe', 'seek', 'position', 'committed', 'group', 'poll', 'leave', 'close'])

// --- frames ---------------------------------------------------------------------------------------------------------------

function packed (message) {
  const body = Buffer.from(JSON.stringify(message))
  if (body.length > LARGEST) throw new CallError('TOO_LARGE', `an answer of ${body.length} bytes`)
  const frame = Buffer.allocUnsafe(HEADER + body.length)
  frame.writeUInt32BE(body.length)
  body.copy(frame, HEADER)
  return frame
}

/** Call `take` with each message of a stream; the end of the stream ends the process, as does what is no frame. */
function listen (stream, take) {
  let chunks = []
  let size = 0
  stream.on('data', chunk => {
    chunks.push(chunk)
    size += chunk.length
    let all = null
    let at = 0
    const needed = () => (size - at < HEADER ? Infinity : HEADER + (all ??= Buffer.concat(chunks)).readUInt32BE(at))
    for (let length = needed(); length <= size - at; length = needed()) {
      take(JSON.parse(all.toString('utf8', at + HEADER, at + length)))
      at += length
    }
    if (all) {
      chunks = [all.subarray(at)]
      size -= at
    }
  })
  stream.on('end', () => process.exit(0))
  stream.on('error', () => process.exit(0))
}

/** Serve the library until standard input ends. */
function serve (library) {
  const out = process.stdout
  for (const name of ['log', 'info', 'debug', 'warn', 'error']) console[name] = (...words) => process.stderr.write(`${words.join(' ')}\n`)
  out._handle?.setBlocking?.(false) // what fencepost does not read yet waits in memory, and the library's timers go on
  out.on('error', () => process.exit(0))
  const event = message => out.write(packed(message))
  const driver = new Driver(library, event)
  const stray = error => {
    driver.stray = error instanceof Error ? error : new Error(String(error))
    event({ event: 'log', level: 'error', text: `not caught: ${driver.stray.stack}` })
  }
  process.on('uncaughtException', stray)
  process.on('unhandledRejection', stray)
  let before = Promise.resolve()
  listen(process.stdin, request => { before = before.then(() => reply(driver, library, request, out)) })
}

async function reply (driver, library, request, out) {
  let answer
  try {
    answer = { id: request.id, ok: await driver.answer(request) }
  } catch (error) {
    answer = { id: request.id, error: error instanceof CallError ? error.answer : library.describe(error) }
  }
  try {
    out.write(packed(answer))
  } catch (error) {
    out.write(packed({ id: request.id, error: error.answer }))
  }
}

module.exports = { CallError, byTopic, security, serve, sleep, split, unsupported, oneOf }
