package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Occurrences that somebody outside waits for, who tells other proxies of them. */
final class Watches {
    private static final int KEPT = 10_000;
    private final Map<Integer, Watch> watches = new ConcurrentHashMap<>();
    private final AtomicInteger last = new AtomicInteger();

    /** One kind of occurrence, and the newest of them. */
    private static final class Watch {
        final String until;
        final Deque<ObjectNode> seen = new ArrayDeque<>();
        long count;
        boolean gone;

        Watch(String until) {
            this.until = until;
        }
    }

    /** Watches for `next:API`, `answered:API` or `ids` from now on; its number. Throws RuleError. */
    int add(String until) {
        if (!Occurrences.valid(until) && !until.equals(Occurrences.IDS)) {
            throw new RuleError(List.of("until: must be next:API or answered:API with Kafka's name of an API, or ids"));
        }
        int number = last.incrementAndGet();
        watches.put(number, new Watch(until));
        return number;
    }

    boolean any() {
        return !watches.isEmpty();
    }

    /** True if somebody waits for such an occurrence. */
    boolean wants(String until) {
        return watches.values().stream().anyMatch(watch -> watch.until.equals(until));
    }

    /** Something has occurred. ids: its transactional ids; null: it is of none. */
    void occurred(String until, Set<String> ids, long when) {
        for (Watch watch : watches.values()) {
            if (watch.until.equals(until)) {
                ObjectNode line = Codec.JSON.createObjectNode().put("until", until).put("time_ns", when);
                ArrayNode list = ids == null ? null : Codec.JSON.createArrayNode();
                if (ids != null) {
                    ids.forEach(list::add);
                }
                add(watch, line.set("transactional_ids", list));
            }
        }
    }

    /** The state of an id has changed. */
    void told(ObjectNode line) {
        watches.values().stream().filter(watch -> watch.until.equals(Occurrences.IDS)).forEach(watch -> add(watch, line));
    }

    /** One watch is to have what occurred before it began. */
    void told(int number, ObjectNode line) {
        add(watches.get(number), line);
    }

    private static void add(Watch watch, ObjectNode line) {
        synchronized (watch) {
            watch.seen.add(line);
            if (watch.seen.size() > KEPT) {
                watch.seen.remove();
            }
            watch.count++;
            watch.notifyAll();
        }
    }

    /** Waits until there are more than `from` occurrences: their count, and the newest of those behind `from`. Null: no such watch. */
    ObjectNode await(int number, long from, long timeoutMs) {
        Watch watch = watches.get(number);
        if (watch == null) {
            return null;
        }
        long until = System.nanoTime() + timeoutMs * 1_000_000;
        synchronized (watch) {
            for (long left = timeoutMs; watch.count <= from && !watch.gone && left > 0; left = (until - System.nanoTime()) / 1_000_000) {
                Waiting.on(watch, left);
            }
            ObjectNode answer = Codec.JSON.createObjectNode().put("count", watch.count);
            ArrayNode list = answer.putArray("seen");
            watch.seen.stream().skip(Math.max(0, watch.seen.size() - (watch.count - from))).forEach(list::add);
            return answer;
        }
    }

    /** Ends a watch, and the waiting for it; false: there is none. */
    boolean remove(int number) {
        Watch watch = watches.remove(number);
        if (watch != null) {
            synchronized (watch) {
                watch.gone = true;
                watch.notifyAll();
            }
        }
        return watch != null;
    }
}
