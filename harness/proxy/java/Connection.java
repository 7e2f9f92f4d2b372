package fencepost.proxy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** A client's connection and the one to the broker that belongs to it: an event loop serves it, or two threads, one for each direction. */
final class Connection {
    private static final long DRAIN_MS = 30_000; // for answers to a client that has gone
    final long number;
    final String client;
    final Origin origin;
    final Process process;
    final Endpoint endpoint;
    final Peer clientSide;
    final Peer brokerSide;
    final RequestSide requests;
    final AnswerSide answers;
    final Pending pending = new Pending();
    volatile boolean clientGone;
    volatile boolean bytesOnly; // SASL of the first version: what follows has no headers
    volatile String silentRequests; // the rule by which no request goes on; null: none
    volatile String silentAnswers;
    private volatile Boolean ofBroker; // whether the peer is a broker; null: not known yet
    private final AtomicReference<String> closedBy = new AtomicReference<>();
    private final AtomicReference<String> ended = new AtomicReference<>();

    Connection(long number, Process process, Endpoint endpoint, Peer clientSide, Peer brokerSide) {
        this.number = number;
        this.process = process;
        this.endpoint = endpoint;
        this.clientSide = clientSide;
        this.brokerSide = brokerSide;
        client = clientSide.link.address();
        origin = new Origin(endpoint.node, number, client);
        requests = new RequestSide(this);
        answers = new AnswerSide(this);
    }

    String node() {
        return endpoint.node;
    }

    /** Serves it: an event loop does where that is possible, as long as nothing has to wait. */
    void serve() throws IOException {
        if (clientSide.link.channel() == null || brokerSide.link.channel() == null) {
            startThreads();
        } else {
            process.loop.add(this);
        }
    }

    /** Serves it by two threads from now on. */
    void startThreads() {
        process.threads.start("requests " + number, requests::run);
        process.threads.start("answers " + number, answers::run);
    }

    List<Peer> sides() {
        return List.of(clientSide, brokerSide);
    }

    boolean ofBroker() {
        return Boolean.TRUE.equals(ofBroker);
    }

    /** Looks at a request for what only brokers send. */
    void look(Message request) {
        if (ofBroker == null || !ofBroker) {
            Boolean seen = Brokers.sent(request);
            ofBroker = seen == null ? ofBroker : seen;
        }
    }

    /** Sends an answer to the client, after those that the proxy has made for earlier requests. rest: writes it where it was not read as a whole, else null. */
    synchronized void deliver(Entry entry, ByteBuffer frame, FrameSource rest) throws IOException {
        flush();
        try {
            if (rest == null) {
                clientSide.write(frame);
            } else {
                rest.writeTo(clientSide);
            }
        } finally {
            pending.remove(entry);
        }
        process.holds.answered(entry.request);
        flush();
    }

    /** An answer that is not delivered: what the proxy has made for later requests may go now. */
    synchronized void skip(Entry entry) throws IOException {
        pending.remove(entry);
        flush();
    }

    /** An answer made by the proxy: delivered when its turn has come. */
    synchronized void make(Entry entry) throws IOException {
        pending.add(entry);
        flush();
    }

    private void flush() throws IOException {
        for (Entry entry = pending.made(); entry != null; entry = pending.made()) {
            long now = System.nanoTime();
            boolean lost = silentAnswers != null || clientGone;
            process.recorder.answer(entry, entry.made, entry.hits, now, lost ? null : now, this);
            pending.remove(entry);
            if (lost) {
                process.recorder.lost(entry, why());
            } else {
                clientSide.write(entry.made.frame.duplicate());
                process.holds.answered(entry.request);
            }
        }
    }

    /** The reason why an answer cannot be returned. */
    String why() {
        return silentAnswers != null ? silentAnswers : closedBy.get() == null ? "client closed" : closedBy.get();
    }

    /** The client has closed its side: answers that are still to come are recorded, then the broker's side is closed. */
    void clientEnded() {
        clientGone = true;
        process.holds.closed(this);
        pending.awaitEmpty(DRAIN_MS);
        end("client", "client closed");
    }

    /** Closes the client's side alone. */
    void cutClient(String rule) {
        clientGone = true;
        if (closedBy.compareAndSet(null, "cut by " + rule)) {
            process.recorder.closed(this, "rule");
        }
        clientSide.close();
    }

    /** Closes both sides, for the first reason that comes. */
    void end(String by, String why) {
        if (!ended.compareAndSet(null, why)) {
            return;
        }
        if (closedBy.compareAndSet(null, why)) {
            process.recorder.closed(this, by);
        }
        pending.clear().forEach(entry -> process.recorder.lost(entry, why));
        process.holds.ended(this);
        clientSide.close();
        brokerSide.close();
        endpoint.connections.remove(this);
    }

    boolean ended() {
        return ended.get() != null;
    }
}
