// Consume, transform, produce with @platformatic/kafka, at least once: outputs are acknowledged before the group's offsets are committed.
// Members of the group speak the protocol of KIP-848, with which the library's transactions cannot commit offsets.
//
// platformatic.py, beside this, fetches the library and runs this: node platformatic.mjs DIRECTORY, the one with node_modules in it.

import { tracingChannel } from 'node:diagnostics_channel'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const home = path.join(path.resolve(process.argv[2]), 'node_modules', '@platformatic', 'kafka', 'dist', 'index.js')
const { Consumer, Producer } = await import(pathToFileURL(home))
const env = process.env
const common = {
  clientId: `instance-${env.FENCEPOST_INSTANCE}`,
  bootstrapBrokers: env.FENCEPOST_BOOTSTRAP.split(','),
  metadataMaxAge: 1000,
  requestTimeout: 5000,
  autocreateTopics: false
}
const producer = new Producer({ ...common, acks: -1, idempotent: true, producerId: -1n, producerEpoch: -1 })
const consumer = new Consumer({ ...common, groupId: env.FENCEPOST_GROUP, groupProtocol: 'consumer', maxWaitTime: 200, isolationLevel: 1 })

/** An error with all that lie beneath it, in words. */
function words (error) {
  return [error.apiId ?? error.message, ...[...error.errors ?? [], error.cause].filter(Boolean).map(words)].join(': ')
}

// Offsets that the group's coordinator refuses: the library does not always say so to its caller.
tracingChannel('plt:kafka:consumer:offsets').subscribe({ error ({ operation, error }) { console.log(`${operation} failed:`, words(error)) } })

function ended (error) {
  console.log('ended:', error)
  process.exit(1)
}

/** What is made of an input record: the same text in capitals, with the header that names the input. */
function output ({ key, value, headers }) {
  return { topic: env.FENCEPOST_OUTPUT, key, value: Buffer.from(value.toString().toUpperCase()), headers }
}

/** Outputs first; a commit that is refused is repeated with the next batch, or by whoever has the partition by then. */
async function processed (batch) {
  await producer.send({ messages: batch.map(output) })
  const next = new Map(batch.map(({ topic, partition, offset }) => [`${topic}:${partition}`, { topic, partition, offset: offset + 1n, leaderEpoch: -1 }]))
  await consumer.commit({ offsets: [...next.values()] }).catch(error => console.log('not committed:', words(error)))
}

async function main () {
  const stream = await consumer.consume({ topics: [env.FENCEPOST_INPUT], mode: 'committed', fallbackMode: 'latest', autocommit: false, maxWaitTime: 200 })
  process.on('SIGTERM', () => consumer.close(true).finally(() => process.exit(0)))
  let batch = []
  stream.on('error', ended)
  stream.on('data', message => { batch.push(message) })
  while (true) {
    await new Promise(resolve => setTimeout(resolve, 50))
    const taken = batch
    batch = []
    if (taken.length > 0) await processed(taken)
  }
}

main().catch(ended)
