package fencepost.proxy;

import java.io.IOException;
import java.nio.ByteBuffer;

/** What rules do with a request. */
final class RequestActs {
    private final Connection connection;
    private final Process process;

    RequestActs(Connection connection) {
        this.connection = connection;
        process = connection.process;
    }

    /** Performs the acts of the rules that match; false: the request does not go on to the broker now. */
    boolean perform(Entry entry) throws IOException {
        boolean later = false;
        for (Rules.Hit hit : entry.hits) {
            later |= hit.rule().keeps();
            try {
                if (!perform(hit, entry)) {
                    return false;
                }
            } catch (RuntimeException error) {
                hit.caught().failed(String.valueOf(error.getMessage()));
            }
        }
        if (later) {
            process.recorder.forwarded(entry, System.nanoTime(), 0);
        }
        return true;
    }

    private boolean perform(Rules.Hit hit, Entry entry) throws IOException {
        switch (hit.rule().act) {
            case "delay", "hold" -> {
                return hold(hit, entry);
            }
            case "drop" -> {
                return drop(hit, entry);
            }
            case "cut" -> {
                hit.caught().state("cut");
                process.recorder.lost(entry, "cut by " + hit.state().title);
                connection.end("rule", "cut by " + hit.state().title);
                return false;
            }
            case "lose" -> entry.lose = hit;
            case "error" -> {
                return error(hit, entry);
            }
            case "late" -> {
                return late(hit, entry);
            }
            case "repeat" -> whole(entry);
            case "alter" -> {
                Transforms.apply(hit.rule(), entry.request);
                hit.caught().state("altered");
            }
            case "throttle" -> throttle(hit, connection);
            default -> hit.caught().state("recorded");
        }
        return true;
    }

    static void throttle(Rules.Hit hit, Connection connection) {
        connection.clientSide.throttle(hit.rule().bytesPerSecond);
        connection.brokerSide.throttle(hit.rule().bytesPerSecond);
        hit.caught().state("throttled");
    }

    private boolean hold(Rules.Hit hit, Entry entry) {
        long most = hit.rule().act.equals("delay") ? hit.rule().delayMs : hit.rule().atMostMs;
        String by = process.holds.await(hit, entry.request, connection, most, connection.clientSide.in::closed);
        boolean over = connection.ended();
        hit.caught().released(over ? "lost" : "released", by);
        if (over) {
            process.recorder.lost(entry, connection.why());
        }
        return !over;
    }

    private boolean drop(Rules.Hit hit, Entry entry) {
        hit.caught().state("dropped");
        process.recorder.lost(entry, hit.state().title);
        if (hit.rule().then.equals("stall")) {
            connection.silentRequests = hit.state().title;
        } else {
            connection.end("rule", "cut by " + hit.state().title);
        }
        return false;
    }

    private boolean error(Rules.Hit hit, Entry entry) throws IOException {
        entry.made = Message.answer(entry.request, ErrorAnswers.to(entry.request, hit.rule().code));
        entry.sent = true;
        hit.caught().state("answered");
        connection.make(entry);
        return false;
    }

    /** Keeps the request, lets the client believe that it is lost, and delivers it later in a thread of its own. */
    private boolean late(Rules.Hit hit, Entry entry) {
        whole(entry);
        entry.request.keep();
        entry.nowhere = true;
        connection.pending.add(entry);
        connection.silentRequests = hit.state().title;
        connection.silentAnswers = hit.state().title;
        if (hit.rule().then.equals("cut")) {
            connection.cutClient(hit.state().title);
        }
        process.threads.start("late " + entry.number, () -> deliver(hit, entry));
        return false;
    }

    private void deliver(Rules.Hit hit, Entry entry) {
        long most = hit.rule().delayMs >= 0 ? hit.rule().delayMs : hit.rule().atMostMs;
        String by = process.holds.await(hit, entry.request, connection, most, () -> false);
        boolean over = connection.ended();
        hit.caught().released(over ? "lost" : "delivered", by);
        if (over) {
            return;
        }
        try {
            process.recorder.forwarded(entry, System.nanoTime(), 0);
            entry.sent = true;
            send(entry, entry.request.frame, entry.request.frame.duplicate());
        } catch (IOException error) {
            hit.caught().failed("the broker has closed the connection");
            connection.end("broker", "broker closed");
        }
    }

    /** Sends a request to the broker, as often as rules say. bytes: those of the frame, to be written first. */
    void send(Entry entry, ByteBuffer frame, ByteBuffer bytes) throws IOException {
        connection.brokerSide.write(bytes);
        int copy = 0;
        for (Rules.Hit hit : entry.hits) {
            for (int i = 0; hit.rule().act.equals("repeat") && i < hit.rule().count; i++) {
                copy++;
                process.recorder.forwarded(entry, System.nanoTime(), copy);
                connection.pending.add(entry.again(copy));
                connection.brokerSide.write(frame.duplicate());
                hit.caught().state("repeated");
            }
        }
    }

    private static void whole(Entry entry) {
        if (entry.streamed()) {
            throw new IllegalArgumentException("the frame has " + entry.size + " bytes, more than most_frame_bytes: it cannot be kept");
        }
    }
}
