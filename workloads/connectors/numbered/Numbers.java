package fencepost;

import java.util.Map;

/** One source partition: which number comes next, and at which one the present transaction began. */
final class Numbers {
    static final String SOURCE = "source";
    static final String NUMBER = "number";

    final int source;
    final Map<String, String> partition;
    private final int skipEvery;
    private long next;
    private long begin;
    private volatile long told = -1;

    /** stored: the offset of its last committed record, null when there is none. */
    Numbers(int source, Map<String, Object> stored, Settings settings) {
        this.source = source;
        partition = partition(source);
        skipEvery = settings.skipEvery;
        next = stored == null ? 0 : Math.max(0, ((Number) stored.get(NUMBER)).longValue() + 1 - settings.repeatAfterStart);
        begin = next;
    }

    static Map<String, String> partition(int source) {
        return Map.of(SOURCE, Integer.toString(source));
    }

    /** The source of a partition, -1 when it is none of this connector. */
    static int of(Map<String, ?> partition) {
        String source = partition.size() == 1 ? String.valueOf(partition.get(SOURCE)) : "";
        return source.matches("0|[1-9][0-9]{0,8}") ? Integer.parseInt(source) : -1;
    }

    long take() {
        if (skipEvery > 0 && next % skipEvery == skipEvery - 1) {
            next++;
        }
        return next++;
    }

    /** The number that was taken last, -1 when there is none. */
    long last() {
        return next - 1;
    }

    /** The last number before the present transaction, -1 when there is none. */
    long before() {
        return begin - 1;
    }

    /** The worker calls commitRecord for a number. */
    void tell(long number) {
        told = Math.max(told, number); // by one thread
    }

    /** The highest number for which the worker has called commitRecord in this session, -1 when it has for none. */
    long told() {
        return told;
    }

    void commit() {
        begin = next;
    }

    void abort() {
        next = begin;
    }
}
