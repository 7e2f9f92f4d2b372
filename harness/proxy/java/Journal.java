package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * What passes, in its order, on its way to the lines of the record. It is in the kernel's hands before its message goes on, small messages as they are. A
 * thread of its own makes lines of many at a time: that takes a tenth of the time that one takes between two messages, when caches hold what brokers need.
 */
final class Journal {
    private static final int PAUSE_MS = 100; // between two times
    private static final long SOON = 4 << 20; // bytes of waiting events, with which the next time is now
    private static final long MOST = 16 << 20; // with which whoever brings more waits
    private final RecordLines lines;
    private final LineMaker maker;
    private final Object ending = new Object();
    private final Segments segments; // null: there is no room for them
    private final boolean inMemory;
    private List<Event> waiting = new ArrayList<>();
    private long bytes; // of them
    private long added; // events
    private long done; // events that are lines
    private long lineCount; // lines of them: others may be written already
    private long lineBytes;
    private volatile int messages; // events that are messages, and no lines yet
    private boolean hurry;
    private boolean through; // somebody waits until what he brought is a line
    private boolean over; // the last line is written
    private volatile String trouble; // why the record ends; null: it does not

    /** directory: null for lines in memory. */
    Journal(Path directory, String name, LineMaker maker) throws IOException {
        this.maker = maker;
        if (directory != null) {
            Files.createDirectories(directory);
        }
        lines = new RecordLines(directory, name);
        segments = directory == null ? null : segments(directory, name);
        inMemory = directory == null;
    }

    /** Null where there is no room for them: then each message waits until its line is written. */
    private static Segments segments(Path directory, String name) {
        try {
            return new Segments(directory, name);
        } catch (IOException error) {
            return null;
        }
    }

    void start(Threads threads) {
        threads.start("record", this::run);
    }

    /** The first line: whose record it is. */
    void begin(Collection<String> nodes, long first) {
        ObjectNode line = Codec.JSON.createObjectNode().put("at", "begin");
        ArrayNode names = line.putArray("nodes");
        nodes.forEach(names::add);
        add(line.put("first", first).put("time_ns", System.nanoTime()));
    }

    void add(ObjectNode line) {
        add(new Event.Line(LineMaker.bytes(line)));
    }

    /** When it returns, the event is in the kernel's hands. */
    synchronized void add(Event event) {
        boolean fits = segments != null && Segments.fits(event);
        while (over || through || trouble == null && (bytes > MOST || fits && segments.isFull(event, done))) {
            await();
        }
        if (trouble != null) {
            return; // after an event that could not be written there is none: with a hole a record would say what never happened
        }
        boolean kept = inMemory || fits && written(event);
        take(event);
        if (!kept) { // and nobody may be ahead of it
            through = true;
            settle();
            through = false;
            notifyAll();
        }
    }

    /** Waits for lines. Two who woke each other each time would hand this monitor to and fro, and the thread that makes lines would never have it. */
    private void await() {
        if (!hurry) {
            hurry = true;
            notifyAll();
        }
        Waiting.on(this, PAUSE_MS);
    }

    /** True when an event is in a segment; false: it cannot be. */
    private boolean written(Event event) {
        try {
            segments.add(added + 1, event, done, lineCount, lineBytes);
            return true;
        } catch (InternalError error) { // the disk has no room after all
            return false;
        }
    }

    private void take(Event event) {
        added++;
        waiting.add(event);
        bytes += event.size();
        messages += event.kind() == Event.LINE ? 0 : 1;
        if (bytes > SOON && !hurry) {
            hurry = true;
            notifyAll();
        }
    }

    private void end(String why) { // traffic goes on; GET /status says it
        trouble = why;
        System.err.println(lines.place() + " could not be written (" + why + "): the record ends there, and messages pass on");
    }

    /** True if messages were taken that are no lines yet. */
    boolean behind() {
        return messages > 0;
    }

    /** Waits until all events up to now are lines. */
    synchronized void settle() {
        for (long last = added; done < last;) {
            await();
        }
    }

    private void run() {
        while (true) {
            List<Event> some = next();
            done(some, trouble == null ? make(some) : null);
        }
    }

    private synchronized List<Event> next() {
        if (!hurry) {
            Waiting.on(this, PAUSE_MS);
        }
        hurry = false;
        List<Event> some = waiting;
        waiting = new ArrayList<>(); // not the same even when it is empty: others add to it while lines are made of these
        return some;
    }

    /** Makes lines; why they could not be written, null: they are. */
    private String make(List<Event> some) {
        try {
            for (Event event : some) {
                maker.make(event, lines::add);
            }
            lines.flush();
            return null;
        } catch (IOException | RuntimeException | Error error) { // whatever it is: who waits for lines must not wait for ever
            lines.cut();
            return error.getMessage() == null ? error.toString() : error.getMessage();
        }
    }

    private synchronized void done(List<Event> some, String why) {
        if (why != null) {
            end(why);
        } else if (segments != null && !some.isEmpty() && trouble == null) {
            mark(done + some.size());
        }
        done += some.size();
        lineCount = lines.count();
        lineBytes = lines.size();
        for (Event event : some) {
            bytes -= event.size();
            messages -= event.kind() == Event.LINE ? 0 : 1;
        }
        notifyAll();
    }

    private void mark(long last) {
        try {
            segments.mark(last, lines.count(), lines.size());
        } catch (InternalError error) {
            return; // the disk has no room after all: these lines would be made once more
        }
    }

    /** Writes the last line, once. What would be recorded later has to wait, and its message with it, until the process has ended. */
    void end() {
        synchronized (ending) {
            synchronized (this) {
                if (over) {
                    return;
                }
                over = true;
                settle();
            }
            finish();
        }
    }

    private void finish() {
        try {
            if (trouble == null) {
                lines.add(LineMaker.bytes(Codec.JSON.createObjectNode().put("at", "end").put("lines", lines.count() + 1).put("time_ns", System.nanoTime())));
                lines.flush();
                if (segments != null) { // which have what is no line, if there was trouble
                    segments.remove();
                }
            }
        } catch (IOException error) {
            lines.cut();
            end(String.valueOf(error.getMessage()));
        }
    }

    /** The lines from a number on, counted from 0; not more than an answer may hold. */
    List<String> from(long first) {
        settle();
        return lines.from(first);
    }

    void status(ObjectNode into) {
        settle();
        synchronized (this) {
            into.put("record", lines.place()).put("lines", lines.count()).put("record_error", trouble);
        }
    }
}
