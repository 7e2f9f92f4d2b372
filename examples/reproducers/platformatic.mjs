// What was found in @platformatic/kafka (docs/clients.md), with the library alone.
//
//   npm install --prefix DIR @platformatic/kafka@2.12.1
//   node platformatic.mjs aborted-read|cut-answer|partitions|takeover|sequences /absolute/DIR HOST:PORT      sequences: 1.35.0 and 2.2.3

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [what, directory, broker] = process.argv.slice(2)
const entry = createRequire(`${directory}/package.json`).resolve('@platformatic/kafka')
const { Admin, Consumer, Producer } = await import(pathToFileURL(entry))

const common = { clientId: 'reproducer', bootstrapBrokers: [broker], retryDelay: 100, retries: 10 }
const topic = `reproducer-${Date.now()}`
const message = (value, partition = 0) => ({ messages: [{ topic, partition, value: Buffer.from(value) }] })
const producer = () => new Producer({ ...common, idempotent: true, transactionalId: topic, timeout: 15000 })
const leaves = error => (error.errors ? [...error.errors].flatMap(leaves) : [error.apiId ?? error.message])
const outcome = promise => promise.then(() => 'ok', error => [...new Set(leaves(error))].join(', '))

async function transaction (from, value, end) {
  const made = await from.beginTransaction()
  await made.send(message(value))
  await made[end]()
}

/** Prints what a read_committed consumer gets within three seconds. */
async function read (settings) {
  const consumer = new Consumer({ ...common, groupId: topic, isolationLevel: 1, autocommit: false, ...settings })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest' })
  stream.on('data', ({ value, offset }) => console.log(`read_committed: ${value.toString().slice(0, 12)}@${offset}`))
  await new Promise(resolve => setTimeout(resolve, 3000))
}

const stories = {
  /** One producer aborts twice; what a read_committed consumer gets. */
  async 'aborted-read' () {
    const one = producer()
    for (const [value, end] of [['aborted', 'abort'], ['aborted-too', 'abort'], ['committed', 'commit']]) await transaction(one, value, end)
    await read({})
  },

  /** One aborted transaction of ten records, and answers that hold a few of them: all but the last come without the ABORT marker. */
  async 'cut-answer' () {
    const made = await producer().beginTransaction()
    for (let i = 0; i < 10; i++) await made.send(message(`aborted ${i} `.padEnd(10000, '.')))
    await made.abort()
    await read({ maxBytes: 35000 })
  },

  /** Two sends at once to two partitions, in one transaction. */
  async partitions () {
    const made = await producer().beginTransaction()
    console.log(await Promise.all([0, 1].map(partition => outcome(made.send(message('x', partition))))))
    console.log('commit', await outcome(made.commit()))
  },

  /** A second producer of the same transactional id, as after a restart. */
  async takeover () {
    await transaction(producer(), 'x', 'commit')
    console.log(await outcome(producer().beginTransaction()))
  },

  /** Twenty idempotent sends at once. */
  async sequences () {
    const one = new Producer({ ...common, idempotent: true })
    const sent = await Promise.all(Array.from({ length: 20 }, (_, i) => one.send(message(`${i}`))))
    console.log(`${sent.length} acknowledged, at ${new Set(sent.map(({ offsets }) => offsets[0].offset)).size} offsets`)
  }
}

await new Admin(common).createTopics({ topics: [topic], partitions: 2, replicas: 1 })
await stories[what]()
process.exit(0)
