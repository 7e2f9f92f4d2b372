package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.CRC32;

/**
 * The lines of the record: in a file, each in the kernel's hands before its message goes on; without one, the newest in memory. They are
 * numbered from 0, and the last one says how many there are; each has the checksum of what follows it. So whoever reads them sees
 * what is missing or damaged.
 */
final class RecordLines {
    private static final int KEPT = 20_000;
    private static final int ANSWERED = 10_000; // lines of one answer to GET /record
    private final Path path; // null: in memory
    private final FileOutputStream file;
    private final Deque<String> kept = new ArrayDeque<>();
    private long count;
    private long size; // of the file, as far as lines are whole
    private boolean over; // the last line is written
    private String trouble; // why the record ends; null: it does not

    RecordLines(Path directory, String name) throws IOException {
        if (directory == null) {
            path = null;
            file = null;
            return;
        }
        Files.createDirectories(directory);
        path = directory.resolve(name + ".jsonl");
        file = new FileOutputStream(path.toFile());
    }

    /** The first line: whose record it is. */
    void begin(Collection<String> nodes, long first) {
        ObjectNode line = Codec.JSON.createObjectNode().put("at", "begin");
        ArrayNode names = line.putArray("nodes");
        nodes.forEach(names::add);
        add(line.put("first", first).put("time_ns", System.nanoTime()));
    }

    /** The last line. What would be recorded later has to wait, and its message with it, until the process has ended. */
    synchronized void end() {
        if (!over) {
            add(Codec.JSON.createObjectNode().put("at", "end").put("lines", count + 1).put("time_ns", System.nanoTime()));
            over = true;
        }
    }

    void add(ObjectNode line) {
        byte[] text = bytes(line);
        synchronized (this) {
            while (over) {
                await();
            }
            if (trouble != null) {
                return; // after a line that could not be written there is none: with a hole a record would say what never happened
            }
            byte[] whole = numbered(text, count);
            if (file == null) {
                keep(new String(whole, 0, whole.length - 1, StandardCharsets.UTF_8));
                count++;
            } else {
                write(whole);
            }
        }
    }

    private void await() {
        try {
            wait();
        } catch (InterruptedException error) {
            throw new IllegalStateException("the record is over", error);
        }
    }

    private static byte[] bytes(ObjectNode line) {
        try {
            return Codec.JSON.writeValueAsBytes(line);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A JSON object with its number and the checksum of its own fields in front, and the end of the line. */
    private static byte[] numbered(byte[] object, long number) {
        CRC32 sum = new CRC32();
        sum.update(object, 1, object.length - 1);
        byte[] head = ("{\"line\":" + number + ",\"sum\":" + sum.getValue() + ",").getBytes(StandardCharsets.UTF_8);
        byte[] whole = Arrays.copyOf(head, head.length + object.length);
        System.arraycopy(object, 1, whole, head.length, object.length - 1);
        whole[whole.length - 1] = '\n';
        return whole;
    }

    private void keep(String text) {
        kept.add(text);
        if (kept.size() > KEPT) {
            kept.remove();
        }
    }

    private void write(byte[] text) {
        try {
            file.write(text);
            size += text.length;
            count++;
        } catch (IOException error) { // traffic goes on; GET /status says it
            cutOff(String.valueOf(error.getMessage()));
        }
    }

    private void cutOff(String why) {
        trouble = why;
        System.err.println(path + " could not be written (" + why + "): the record ends there, and messages pass on");
        try {
            file.getChannel().truncate(size); // of half a line
        } catch (IOException error) {
            return; // whoever reads it leaves out a last line that is torn
        }
    }

    /** The lines from a number on, counted from 0; not more than an answer may hold. */
    List<String> from(long first) {
        if (path == null) {
            synchronized (this) {
                return kept.stream().skip(Math.max(0, first - (count - kept.size()))).limit(ANSWERED).toList();
            }
        }
        long written;
        synchronized (this) {
            written = count;
        }
        try (Stream<String> lines = Files.lines(path)) {
            return lines.limit(written).skip(first).limit(ANSWERED).toList();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    synchronized void status(ObjectNode into) {
        into.put("record", path == null ? null : path.toString()).put("lines", count).put("record_error", trouble);
    }
}
