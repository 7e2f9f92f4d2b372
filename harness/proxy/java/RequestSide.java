package fencepost.proxy;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.ApiMessageType;

/** From the client to the broker. */
final class RequestSide {
    private final Connection connection;
    private final Process process;
    private final FrameInput in;
    private final Peer broker;
    private final RequestActs acts;

    RequestSide(Connection connection) {
        this.connection = connection;
        process = connection.process;
        in = connection.clientSide.in;
        broker = connection.brokerSide;
        acts = new RequestActs(connection);
    }

    void run() {
        try {
            connection.brokerSide.flush();
            while (!connection.ended() && in.more()) {
                next(true);
            }
        } catch (EOFException error) {
            process.counts.malformed();
        } catch (BrokerGone error) {
            connection.end("broker", "broker closed");
        } catch (IOException error) {
            connection.clientGone = true;
        } catch (RuntimeException | OutOfMemoryError error) {
            process.counts.failure(error);
        } finally {
            in.done();
            in.forget();
            connection.clientEnded();
        }
    }

    /** Serves what has come without waiting; false: the connection needs threads. */
    boolean serveReady(ByteBuffer shared) {
        try {
            in.readNow(shared);
            while (!connection.ended() && in.whole()) {
                if (mayWait()) {
                    return false;
                }
                next(false);
            }
            return connection.ended() || !in.ended() && in.fits() && !broker.full() && !connection.clientSide.full() || over();
        } catch (BrokerGone error) {
            connection.end("broker", "broker closed");
            return true;
        } catch (IOException error) {
            return false; // the thread comes upon it
        } finally {
            in.leave();
        }
    }

    /** Ends the connection if the client has closed it and waits for nothing. */
    private boolean over() {
        if (!in.ended() || !in.empty() || !connection.pending.isEmpty()) {
            return false;
        }
        connection.clientEnded();
        return true;
    }

    /** True if the next request has to be served by a thread: a rule may act on it, or what follows is no frame. */
    private boolean mayWait() {
        if (in.peek(0) < Message.HEAD - 4) {
            return true;
        }
        ApiMessageType type = Codec.type((short) (in.peek(4) >> 16));
        return type == ApiMessageType.SASL_HANDSHAKE || !process.rules.none() && process.rules.may(Message.api(type, (short) (in.peek(4) >> 16)));
    }

    /** mayWait: whether rules may act. */
    private void next(boolean mayWait) throws IOException {
        int size = in.size();
        if (size < Message.HEAD - 4) {
            process.counts.malformed();
            in.passAll(broker::write);
        } else {
            ByteBuffer frame = size <= process.config.mostFrameBytes ? in.frame(size) : null;
            if (frame == null) {
                process.counts.streamed();
            }
            request(frame == null ? in.beginning((int) Math.min(size + 4L, 1024)) : frame, size + 4L, mayWait);
        }
        if (connection.bytesOnly) {
            in.passAll(broker::write);
        }
    }

    private void request(ByteBuffer frame, long size, boolean mayWait) throws IOException {
        Message request = Message.request(frame);
        Entry entry = new Entry(process.nextNumber(), request, System.nanoTime(), size);
        process.counts.message(size);
        entry.asItIs = process.recorder.asItIs(request, entry.size);
        look(entry);
        process.holds.arrived(request);
        if (mayWait && !entry.asItIs && process.rules.may(request.api()) && connection.silentRequests == null) {
            request.idState = process.ids().of(request);
            entry.hits.addAll(process.rules.hits(request, connection));
        }
        process.recorder.arrived(entry, connection);
        boolean goesOn = connection.silentRequests == null && acts.perform(entry) && !refused(entry);
        if (!goesOn && connection.silentRequests != null && entry.hits.isEmpty()) {
            process.recorder.lost(entry, connection.silentRequests);
        }
        if (goesOn) {
            forward(entry);
        } else if (entry.streamed()) {
            in.pass(bytes -> {}, size);
        }
        if (in.lent(request.frame)) {
            request.letGo();
        }
        in.done();
    }

    /** Notes what a request shows of its connection, and counts what cannot be read. */
    private void look(Entry entry) {
        Message request = entry.request;
        connection.look(request);
        connection.bytesOnly |= request.api().equals("SaslHandshake") && request.version == 0;
        boolean wanted = !entry.asItIs && (process.recorder.records(request.api()) || process.rules.may(request.api()));
        if (request.bodyAt < 0 || wanted && request.body() == null) {
            if (process.counts.unknown(request)) {
                process.recorder.unknown(request, connection);
            }
        }
    }

    /** Answers a request for versions that is newer than what can be read, where addresses have to be; false for all others. */
    private boolean refused(Entry entry) throws IOException {
        ByteBuffer answer = process.config.rewrite && !entry.streamed() ? Versions.refused(entry.request) : null;
        if (answer != null) {
            entry.made = Message.answer(entry.request, answer);
            entry.sent = true;
            connection.make(entry);
        }
        return answer != null;
    }

    private void forward(Entry entry) throws IOException {
        ByteBuffer frame = entry.request.frame;
        boolean streamed = entry.streamed();
        entry.sent = true;
        boolean answered = answered(entry.request);
        if (in.lent(frame)) {
            spare(entry.request);
        }
        if (answered) {
            connection.pending.add(entry);
        }
        try {
            if (streamed) {
                in.pass(broker::write, entry.size);
            } else {
                acts.send(entry, frame, in.bytes(frame));
            }
        } catch (EOFException error) { // nobody answers half a request
            connection.pending.remove(entry);
            process.recorder.lost(entry, connection.why());
            throw error;
        } catch (IOException error) {
            throw new BrokerGone(error);
        }
    }

    /** Takes the frame from a request that waits for its answer: but for rules, nobody looks at it again. */
    private void spare(Message request) {
        if (process.rules.may(request.api())) {
            request.keep();
        } else {
            request.letGo();
        }
    }

    /** False for a Produce request that wants no answer. */
    private static boolean answered(Message request) {
        return request.type != ApiMessageType.PRODUCE || Acks.of(request) != 0 || !(request.body() instanceof org.apache.kafka.common.message.ProduceRequestData produce
            && produce.acks() == 0);
    }

    /** The broker takes nothing more. */
    static final class BrokerGone extends IOException {
        private static final long serialVersionUID = 1L;

        BrokerGone(IOException cause) {
            super(cause);
        }
    }
}
