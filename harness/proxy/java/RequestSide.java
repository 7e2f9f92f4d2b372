package fencepost.proxy;

import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;

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
            while (!connection.ended() && in.more()) {
                next();
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
            connection.clientEnded();
        }
    }

    private void next() throws IOException {
        int size = in.size();
        if (size < Message.HEAD - 4) {
            process.counts.malformed();
            in.passAll(broker.stream());
        } else {
            byte[] frame = size <= process.config.mostFrameBytes ? in.frame(size) : null;
            if (frame == null) {
                process.counts.streamed();
            }
            request(frame == null ? in.beginning((int) Math.min(size + 4L, 1024)) : frame, size + 4L);
        }
        if (connection.bytesOnly) {
            in.passAll(broker.stream());
        }
    }

    private void request(byte[] frame, long size) throws IOException {
        Message request = Message.request(frame);
        Entry entry = new Entry(process.nextNumber(), request, System.nanoTime(), size);
        process.counts.message(size);
        look(request);
        process.holds.arrived(request);
        if (process.rules.may(request.api()) && connection.silentRequests == null) {
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
            in.pass(OutputStream.nullOutputStream(), size);
        }
    }

    /** Notes what a request shows of its connection, and counts what cannot be read. */
    private void look(Message request) {
        connection.look(request);
        connection.bytesOnly |= request.api().equals("SaslHandshake") && request.version == 0;
        boolean wanted = process.recorder.records(request.api()) || process.rules.may(request.api());
        if (request.bodyAt < 0 || wanted && request.body() == null) {
            if (process.counts.unknown(request)) {
                process.recorder.unknown(request, connection);
            }
        }
    }

    /** Answers a request for versions that is newer than what can be read, where addresses have to be; false for all others. */
    private boolean refused(Entry entry) throws IOException {
        byte[] answer = process.config.rewrite && !entry.streamed() ? Versions.refused(entry.request) : null;
        if (answer != null) {
            entry.made = Message.answer(entry.request, answer);
            entry.sent = true;
            connection.make(entry);
        }
        return answer != null;
    }

    private void forward(Entry entry) throws IOException {
        entry.sent = true;
        if (answered(entry.request)) {
            connection.pending.add(entry);
        }
        try {
            if (entry.streamed()) {
                in.pass(broker.stream(), entry.size);
            } else {
                acts.send(entry);
            }
        } catch (EOFException error) {
            throw error;
        } catch (IOException error) {
            throw new BrokerGone(error);
        }
    }

    /** False for a Produce request that wants no answer. */
    private static boolean answered(Message request) {
        return !(request.api().equals("Produce") && request.body() instanceof org.apache.kafka.common.message.ProduceRequestData produce
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
