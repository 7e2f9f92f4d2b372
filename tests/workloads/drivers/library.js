'use strict'
// A library in memory for the driver's shared part. A record's value says what becomes of it: "fail", "fatal", "hang", "lost", "astray" or anything else;
// "slow 20" takes so many ms; "until FILE" waits until there is such a file, and after "commit FILE" the commit does.
const fs = require('node:fs')
const { CallError, serve } = require(process.argv[2])

const log = []
let held = 0
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const made = async file => { while (!fs.existsSync(file)) await sleep(2) }

class Producer {
  constructor ({ values }) { this.values = values }
  async open () {}
  async begin () { this.awaited = '/' }
  async send ({ partition, value }) {
    const text = value.toString()
    held += 1
    if (held > 1) throw new Error('two sends at once')
    const [what, more] = text.split(' ', 2)
    if (what === 'commit') this.awaited = more
    await sleep(what === 'slow' ? Number(more) : 1)
    if (what === 'until') await made(more)
    held -= 1
    if (text === 'hang') await new Promise(() => {})
    if (text === 'fail') throw new CallError('NOT_ENOUGH_REPLICAS', 'too few', {}, 19)
    if (text === 'fatal') throw new CallError('PRODUCER_FENCED', 'fenced', { fatal: true }, 90)
    if (text === 'lost') return {}
    if (text === 'astray') return { partition: partition + 1, offset: 3 }
    return { partition, offset: log.push(text) - 1 }
  }
  async commit () { await made(this.awaited) }
  async abort () { if (this.values.acks === -1) throw new TypeError('the library failed') }
  async leave () {}
  close () { held = 0 }
}

class Consumer {
  constructor (settings, reader) { this.reader = reader }
  assign () { this.running = false }
  run () {
    if (this.running) return
    this.running = true
    log.forEach((text, i) => this.reader.push(['t', 0, i, null, Buffer.from(text), [['a', Buffer.from('1')]], 7]))
    this.reader.reached.set('t-0', log.length + 1) // behind a marker
  }
  reached (name) { return this.reader.reached.get(name) ?? null }
  async endOffsets () { return new Map([['t-0', log.length + 1]]) }
  async leave () {}
  close () {}
}

serve({
  client: 'memory', version: '1', transactions: 1, capabilities: ['transactions'], Producer, Consumer,
  knobs: { producer: {}, consumer: {} },
  describe: error => ({ name: error.name, code: 0, text: error.message, fatal: false, retriable: false, abortable: false })
})
