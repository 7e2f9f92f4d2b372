package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.LongAdder;

/** What passed. */
final class Counts {
    private static final int KINDS = 1000;
    private final LongAdder messages = new LongAdder();
    private final LongAdder bytes = new LongAdder();
    private final LongAdder malformed = new LongAdder();
    private final LongAdder streamed = new LongAdder();
    private final LongAdder unasked = new LongAdder();
    private final LongAdder failures = new LongAdder();
    private long unreached;
    private String lastUnreached;
    private final Map<String, long[]> unknown = new TreeMap<>();

    void message(long size) {
        messages.increment();
        bytes.add(size);
    }

    /** Bytes that are no frame, or half a frame. */
    void malformed() {
        malformed.increment();
    }

    /** A frame that is too long to be read as a whole. */
    void streamed() {
        streamed.increment();
    }

    /** An answer to no request. */
    void unasked() {
        unasked.increment();
    }

    /** A broker that a connection could not be made to, or a handshake that failed. */
    synchronized void unreached(String why) {
        unreached++;
        lastUnreached = why;
    }

    /** An error of the proxy's own, which has ended a connection. */
    void failure(Throwable error) {
        failures.increment();
        error.printStackTrace();
    }

    /** A message of an API or version that is not known, or whose body cannot be read; true: the first one of its kind. */
    synchronized boolean unknown(Message message) {
        String kind = message.api() + " " + message.version;
        if (unknown.size() >= KINDS && !unknown.containsKey(kind)) {
            return false;
        }
        return unknown.computeIfAbsent(kind, key -> new long[1])[0]++ == 0;
    }

    synchronized void status(ObjectNode into) {
        into.put("messages", messages.sum()).put("bytes", bytes.sum()).put("malformed", malformed.sum());
        into.put("streamed", streamed.sum()).put("unasked", unasked.sum()).put("failures", failures.sum());
        into.put("unreached", unreached).put("last_unreached", lastUnreached);
        ArrayNode list = into.putArray("unknown");
        unknown.forEach((kind, count) -> {
            int space = kind.lastIndexOf(' ');
            list.addObject().put("api", kind.substring(0, space)).put("version", Integer.parseInt(kind.substring(space + 1)))
                .put("count", count[0]);
        });
    }
}
