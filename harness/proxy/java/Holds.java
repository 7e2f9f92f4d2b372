package fencepost.proxy;

import java.util.Collection;
import java.util.HashSet;
import java.util.Set;
import java.util.function.BooleanSupplier;

/** Messages that are held: each by a thread that waits here until what it waits for occurs, or its time is over. */
final class Holds {
    private static final long LOOK_MS = 10; // between two looks whether the client is still there
    private static final String REMOVED = "rule removed";
    final Watches watches = new Watches();
    private final Set<Hold> held = new HashSet<>();
    private volatile boolean any; // something is held

    /** A held message. connection: whose end releases it as well. */
    private static final class Hold {
        final int rule;
        final String until;
        final String transactionalId;
        final Connection connection;
        final long since = System.nanoTime();
        String released; // by what; null: it is held

        Hold(int rule, String until, String transactionalId, Connection connection) {
            this.rule = rule;
            this.until = until;
            this.transactionalId = transactionalId;
            this.connection = connection;
        }
    }

    /**
     * Waits, and returns what released it: the text of `until`, "time", "rule removed" or "connection ended".
     * closed: asked from time to time whether the client has closed its connection.
     */
    String await(Rules.Hit hit, Message message, Connection connection, long mostMs, BooleanSupplier closed) {
        Message request = message.isAnswer() ? message.request : message;
        String id = Facts.first(request.facts().transactionalIds);
        Hold hold = new Hold(hit.state().number, String.valueOf(hit.rule().until), id, connection);
        synchronized (this) {
            held.add(hold);
            any = true;
            if (hit.state().isGone()) { // while another rule held the message, or in this moment
                hold.released = REMOVED;
            }
        }
        hit.caught().state("held"); // from now on it can be released
        long until = System.nanoTime() + mostMs * 1_000_000;
        boolean gone = false;
        while (true) {
            synchronized (this) {
                long left = (until - System.nanoTime() + 999_999) / 1_000_000;
                if (hold.released == null && left > 0) {
                    Waiting.on(this, gone ? left : Math.min(left, LOOK_MS));
                }
                if (hold.released != null || until - System.nanoTime() <= 0) {
                    held.remove(hold);
                    any = !held.isEmpty();
                    return hold.released == null ? "time" : hold.released;
                }
            }
            if (!gone && closed.getAsBoolean()) {
                gone = true;
                connection.clientGone = true; // before its request goes on: the answer has nobody to come to
                closed(connection);
            }
        }
    }

    /** Releases all that wait for an event; returns how many. */
    int event(String name) {
        return release(held, hold -> hold.until.equals("event:" + name), "event:" + name);
    }

    /** A request has arrived: releases what waits for it. */
    void arrived(Message request) {
        if (any || watches.any()) {
            occurred(Occurrences.NEXT + request.api(), request);
        }
    }

    /** An answer to a request has gone to its client: releases what waits for it. */
    void answered(Message request) {
        if (any || watches.any()) {
            occurred(Occurrences.ANSWERED + request.api(), request);
        }
    }

    private void occurred(String what, Message request) {
        boolean here;
        synchronized (this) {
            here = held.stream().anyMatch(hold -> hold.until.equals(what));
        }
        if (here || watches.wants(what)) {
            Set<String> ids = Occurrences.ids(request);
            long now = System.nanoTime();
            occurred(what, ids, now);
            watches.occurred(what, ids, now);
        }
    }

    /**
     * Something has occurred, here or at another proxy: releases what was held for it before then, and returns how many. ids: its
     * transactional ids; null: it is of none.
     */
    int occurred(String what, Set<String> ids, long when) {
        return release(held, hold -> hold.until.equals(what) && hold.since <= when
            && (ids == null || hold.transactionalId == null || ids.contains(hold.transactionalId)), what);
    }

    /** A client has closed its connection. */
    void closed(Connection connection) {
        release(held, hold -> hold.connection == connection && hold.until.equals("closed"), "closed");
    }

    /** A connection is over: nothing of it can go on. */
    void ended(Connection connection) {
        release(held, hold -> hold.connection == connection, "connection ended");
    }

    /** A rule is removed: what it holds goes on. */
    int removed(int rule) {
        return release(held, hold -> hold.rule == rule, REMOVED);
    }

    private synchronized int release(Collection<Hold> among, java.util.function.Predicate<Hold> which, String by) {
        int count = 0;
        for (Hold hold : among) {
            if (hold.released == null && which.test(hold)) {
                hold.released = by;
                count++;
            }
        }
        notifyAll();
        return count;
    }
}
