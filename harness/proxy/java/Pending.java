package fencepost.proxy;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;

/** Requests of a connection without their answers, in the order in which these have to come. */
final class Pending {
    private final Deque<Entry> entries = new ArrayDeque<>();

    synchronized void add(Entry entry) {
        entries.add(entry);
    }

    /** The request that the broker answers; null when there is none. What came before it has no answer (acks = 0). */
    synchronized Entry answered(int correlation) {
        Entry first = entries.peek();
        if (first != null && awaited(first) && first.request.correlation == correlation) {
            return first;
        }
        if (entries.stream().noneMatch(entry -> awaited(entry) && entry.request.correlation == correlation)) {
            return null;
        }
        for (Iterator<Entry> iterator = entries.iterator(); iterator.hasNext();) {
            Entry entry = iterator.next();
            if (awaited(entry) && entry.request.correlation == correlation) {
                return entry;
            }
            if (awaited(entry)) {
                iterator.remove();
            }
        }
        return null;
    }

    /** As `answered`, which is to come. */
    synchronized Entry peek(int correlation) {
        Entry first = entries.peek();
        if (first != null && awaited(first) && first.request.correlation == correlation) {
            return first;
        }
        return entries.stream().filter(entry -> awaited(entry) && entry.request.correlation == correlation).findFirst().orElse(null);
    }

    synchronized boolean isEmpty() {
        return entries.isEmpty();
    }

    private static boolean awaited(Entry entry) {
        return entry.made == null && entry.sent;
    }

    /** The first one, if the proxy has made its answer; else null. */
    synchronized Entry made() {
        Entry first = entries.peek();
        return first != null && first.made != null ? first : null;
    }

    synchronized void remove(Entry entry) {
        if (entries.peek() == entry) {
            entries.remove();
        } else {
            entries.remove(entry);
        }
        notifyAll();
    }

    synchronized List<Entry> all() {
        return List.copyOf(entries);
    }

    synchronized List<Entry> clear() {
        List<Entry> left = List.copyOf(entries);
        entries.clear();
        notifyAll();
        return left;
    }

    /** Waits until all are answered: without bound for what is kept back, and so long for what is at the broker. */
    synchronized void awaitEmpty(long mostMs) {
        while (entries.stream().anyMatch(entry -> !entry.sent)) {
            Waiting.on(this, 1000);
        }
        long until = System.nanoTime() + mostMs * 1_000_000;
        for (long left = mostMs; !entries.isEmpty() && left > 0; left = (until - System.nanoTime()) / 1_000_000) {
            Waiting.on(this, left);
        }
    }
}
