package fencepost.proxy;

import java.util.ArrayList;
import java.util.List;

/** A request on its way: until its answer is returned, lost, or recorded. */
final class Entry {
    final long number;
    final Message request;
    final long arrived;
    final long size; // of its frame
    final List<Rules.Hit> hits = new ArrayList<>();
    boolean asItIs; // it is recorded as it is: its body is not read before it goes on
    boolean recorded;
    boolean sent; // false: it is not at the broker yet (late)
    boolean nowhere; // its answer goes nowhere
    int copy; // 0: the request itself
    Message made; // an answer that the proxy has made
    Rules.Hit lose; // the rule by which its answer is lost

    Entry(long number, Message request, long arrived, long size) {
        this.number = number;
        this.request = request;
        this.arrived = arrived;
        this.size = size;
    }

    /** True if only the beginning of its frame was read. */
    boolean streamed() {
        return request.frame != null && size > request.frame.limit();
    }

    /** The request once more. */
    Entry again(int number) {
        Entry other = new Entry(this.number, request, arrived, size);
        other.copy = number;
        other.recorded = recorded;
        other.sent = true;
        other.nowhere = true;
        return other;
    }
}
