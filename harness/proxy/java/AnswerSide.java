package fencepost.proxy;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;

/** From the broker to the client. */
final class AnswerSide {
    private static final String BROKER_CLOSED = "broker closed";
    private final Connection connection;
    private final Process process;
    private final FrameInput in;
    private boolean held; // the answer was recorded before it was held

    AnswerSide(Connection connection) {
        this.connection = connection;
        process = connection.process;
        in = connection.brokerSide.in;
    }

    void run() {
        try {
            flush();
            while (in.more()) {
                next(true);
            }
        } catch (IOException error) {
            // said below: the broker has closed the connection, or the other thread has
        } catch (RuntimeException | OutOfMemoryError error) {
            process.counts.failure(error);
        } finally {
            in.done();
            connection.end("broker", BROKER_CLOSED);
        }
    }

    /** Writes what an event loop could not; a client that takes nothing has gone. */
    private void flush() {
        try {
            connection.clientSide.flush();
        } catch (IOException error) {
            connection.clientGone = true;
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
            return connection.ended() || !in.ended() && in.fits() && !connection.clientGone && !connection.clientSide.full();
        } catch (IOException error) {
            return false; // the thread comes upon it
        } finally {
            in.leave();
        }
    }

    /** True if the next answer has to be served by a thread: a rule may act on it, or what follows is no frame. */
    private boolean mayWait() {
        if (in.peek(0) < 4 || process.rules.none()) {
            return in.peek(0) < 4;
        }
        Entry entry = connection.pending.peek(in.peek(4));
        return entry != null && process.rules.may(entry.request.api());
    }

    /** mayWait: whether rules may act. */
    private void next(boolean mayWait) throws IOException {
        int size = in.size();
        if (size < 4) {
            process.counts.malformed();
            in.passAll(connection.clientSide::write);
            return;
        }
        ByteBuffer read = size <= process.config.mostFrameBytes ? in.frame(size) : null;
        boolean whole = read != null;
        ByteBuffer frame = whole ? read : in.beginning(Math.min(size, 1024));
        process.counts.message(size + 4L);
        if (!whole) {
            process.counts.streamed();
        }
        Entry entry = connection.pending.answered(frame.getInt(4));
        FrameSource rest = whole ? null : peer -> in.pass(peer::write, size + 4L);
        if (entry == null) {
            process.counts.unasked();
            if (whole) {
                connection.clientSide.write(frame);
            } else {
                rest.writeTo(connection.clientSide);
            }
            in.done();
            return;
        }
        answer(entry, Message.answer(entry.request, frame), rest, mayWait);
        in.done();
        if (connection.bytesOnly && entry.request.api().equals("SaslHandshake")) {
            in.passAll(connection.clientSide::write);
        }
    }

    /** rest: writes the frame where it was not read as a whole. */
    private void answer(Entry entry, Message answer, FrameSource rest, boolean mayWait) throws IOException {
        long answered = System.nanoTime();
        String api = answer.api();
        boolean asItIs = rest == null && process.recorder.asItIs(entry, answer);
        look(answer, api, asItIs);
        if (entry.copy > 0) {
            process.recorder.answer(entry, answer, List.of(), answered, null, connection);
            connection.skip(entry);
            return;
        }
        String lost = entry.nowhere || connection.silentAnswers != null || connection.clientGone ? connection.why() : null;
        boolean ruled = mayWait && !asItIs && lost == null && entry.lose == null && process.rules.may(api);
        List<Rules.Hit> hits = ruled ? process.rules.hits(answer, connection) : List.of();
        held = false;
        Verdict verdict = lost == null ? perform(entry, answer, hits, answered) : new Verdict(answer, lost);
        Long now = verdict.lost == null ? System.nanoTime() : null;
        if (asItIs) {
            process.recorder.answer(entry, answer, answered, now, connection);
        } else if (!held) {
            process.recorder.answer(entry, answer, hits, answered, now, connection);
        } else if (now != null) {
            process.recorder.returned(entry, now);
        }
        finish(entry, verdict, rest);
    }

    private void finish(Entry entry, Verdict verdict, FrameSource rest) throws IOException {
        if (verdict.lost != null) {
            process.recorder.lost(entry, verdict.lost);
            skip(entry, rest);
            return;
        }
        if (rest == null) {
            rewrite(entry, verdict.answer);
        }
        try {
            connection.deliver(entry, rest == null ? in.bytes(verdict.answer.frame) : null, rest);
        } catch (EOFException error) { // the broker has ended in the middle of it
            process.recorder.lost(entry, BROKER_CLOSED);
            throw error;
        } catch (IOException error) {
            connection.clientGone = true;
            process.recorder.lost(entry, connection.why());
        }
    }

    /** Throws IOException where there is no listener for a broker that it names: its client would go past the proxy. */
    private void rewrite(Entry entry, Message answer) throws IOException {
        try {
            process.endpoints.rewrite(answer);
        } catch (UncheckedIOException error) {
            process.counts.unreached(error.getCause().getMessage());
            process.recorder.lost(entry, "no listener for a broker that it names");
            connection.end("proxy", "no listener for a broker that an answer names");
            throw error.getCause();
        }
    }

    private void skip(Entry entry, FrameSource rest) throws IOException {
        if (rest != null) {
            in.pass(bytes -> {}, in.size() + 4L);
        }
        connection.skip(entry);
    }

    private void look(Message answer, String api, boolean asItIs) {
        if (asItIs) {
            return;
        }
        if (IdStates.told(api)) {
            process.ids().answered(answer, System.nanoTime());
        }
        if (TopicNames.told(api)) {
            TopicNames.learn(answer.json());
        }
        boolean wanted = process.recorder.records(api) || process.rules.may(api);
        if (wanted && answer.request.bodyAt >= 0 && answer.body() == null) {
            if (process.counts.unknown(answer)) {
                process.recorder.unknown(answer, connection);
            }
        }
    }

    /** What becomes of an answer. lost: why it is not returned; null: it is. */
    private record Verdict(Message answer, String lost) {}

    private Verdict perform(Entry entry, Message answer, List<Rules.Hit> hits, long answered) {
        Message current = answer;
        if (entry.lose != null) {
            return lose(entry.lose, current);
        }
        for (Rules.Hit hit : hits) {
            try {
                switch (hit.rule().act) {
                    case "delay", "hold" -> {
                        String lost = hold(hit, entry, answer, hits, answered);
                        if (lost != null) {
                            return new Verdict(current, lost);
                        }
                    }
                    case "lose", "cut" -> {
                        return lose(hit, current);
                    }
                    case "error" -> {
                        current = answer.with(ErrorAnswers.to(entry.request, hit.rule().code));
                        hit.caught().state("replaced");
                    }
                    case "alter" -> {
                        current = current.with(current.frame);
                        Transforms.apply(hit.rule(), current);
                        hit.caught().state("altered");
                    }
                    case "throttle" -> RequestActs.throttle(hit, connection);
                    default -> hit.caught().state("recorded");
                }
            } catch (RuntimeException error) {
                hit.caught().failed(String.valueOf(error.getMessage()));
            }
        }
        return new Verdict(current, null);
    }

    private String hold(Rules.Hit hit, Entry entry, Message answer, List<Rules.Hit> hits, long answered) {
        if (!held) {
            process.recorder.answer(entry, answer, hits, answered, null, connection);
            held = true;
        }
        long most = hit.rule().act.equals("delay") ? hit.rule().delayMs : hit.rule().atMostMs;
        String by = process.holds.await(hit, answer, connection, most, () -> false);
        boolean over = connection.ended() || connection.clientGone;
        hit.caught().released(over ? "lost" : "released", by);
        return over ? connection.why() : null;
    }

    private Verdict lose(Rules.Hit hit, Message answer) {
        String name = hit.state().title;
        hit.caught().state("lost");
        if (hit.rule().act.equals("lose") && hit.rule().then.equals("stall")) {
            connection.silentAnswers = name;
        } else {
            connection.cutClient(name);
        }
        return new Verdict(answer, connection.why());
    }
}
