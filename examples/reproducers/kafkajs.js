'use strict'
// What was found in kafkajs 2.2.4 (docs/clients.md), with kafkajs alone.
//
//   npm install --prefix DIR kafkajs@2.2.4
//   node kafkajs.js aborted-read DIR HOST:PORT
//   node kafkajs.js swallowed-write DIR HOST:PORT PID     PID: the process of the only broker, which is frozen for 1.5 s
//   node kafkajs.js one-by-one DIR HOST:PORT PID          the same, with each send after the one before: nothing is lost

const [what, directory, broker, pid] = process.argv.slice(2)
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { Kafka, logLevel } = require(`${directory}/node_modules/kafkajs`)

const kafka = new Kafka({ clientId: 'reproducer', brokers: [broker], requestTimeout: 1000, logLevel: logLevel.NOTHING })
const topic = `reproducer-${Date.now()}`
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const to = value => ({ topic, messages: [{ partition: 0, value }] })

async function producer (name) {
  const made = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: `${topic}-${name}` })
  await made.connect()
  return made
}

/** What a read_committed consumer gets of the topic. */
async function log () {
  const consumer = kafka.consumer({ groupId: topic })
  const found = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  consumer.run({ eachMessage: async ({ message }) => { found.push(`${message.value}@${message.offset}`) } })
  await sleep(4000)
  return found.join(' ')
}

/** Two transactions overlap; the one that began later is aborted first. */
async function abortedRead () {
  const [one, two] = [await producer('one'), await producer('two')]
  const [first, second] = [await one.transaction(), await two.transaction()]
  await first.send(to('aborted'))
  await second.send(to('aborted-too'))
  await second.abort()
  await first.abort()
  const third = await one.transaction()
  await third.send(to('committed'))
  await third.commit()
}

/** Two sends of one transaction, while the leader is frozen for longer than requests may take. */
async function swallowedWrite () {
  const transaction = await (await producer('one')).transaction()
  const send = async value => `${value} is acknowledged at ${(await transaction.send(to(value)))[0].baseOffset}`
  console.log(await send('warm'))
  process.kill(pid, 'SIGSTOP')
  const sent = what === 'one-by-one' ? send('A').then(async a => [a, await send('B')]) : Promise.all([send('A'), send('B')])
  await sleep(1500)
  process.kill(pid, 'SIGCONT')
  console.log((await sent).join(', '))
  await transaction.commit()
}

async function main () {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  await (what === 'aborted-read' ? abortedRead() : swallowedWrite())
  console.log(`read_committed: ${await log()}`)
  process.exit(0)
}

main()
