package fencepost.proxy;

import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.CRC32;

/**
 * The lines of the record: in a file, or the newest in memory. They are numbered from 0; each has the checksum of what follows it. So whoever reads them
 * sees what is missing or damaged.
 */
final class RecordLines {
    private static final int KEPT = 20_000;
    private static final int ANSWERED = 10_000; // lines of one answer to GET /record
    private static final int PIECE = 1 << 18; // bytes that are written at once
    private final Path path; // null: in memory
    private final FileOutputStream file;
    private final ByteArrayOutputStream buffer = new ByteArrayOutputStream();
    private final Deque<String> kept = new ArrayDeque<>();
    private long next; // the number of the next line
    private long count; // of those that are written
    private long size; // of the file, as far as lines are whole

    /** directory: null for lines in memory. */
    RecordLines(Path directory, String name) throws IOException {
        path = directory == null ? null : directory.resolve(name + ".jsonl");
        file = path == null ? null : new FileOutputStream(path.toFile());
    }

    /** Takes a JSON object. Throws IOException when what was taken before cannot be written. */
    synchronized void add(byte[] object) throws IOException {
        write(buffer, object, next++);
        if (file == null) {
            keep();
        } else if (buffer.size() > PIECE) {
            flush();
        }
    }

    /** Writes a JSON object as a line, with its number and the checksum of its own fields in front. */
    static void write(ByteArrayOutputStream into, byte[] object, long number) {
        CRC32 sum = new CRC32();
        sum.update(object, 1, object.length - 1);
        into.writeBytes(("{\"line\":" + number + ",\"sum\":" + sum.getValue() + ",").getBytes(StandardCharsets.UTF_8));
        into.write(object, 1, object.length - 1);
        into.write('\n');
    }

    private void keep() {
        kept.add(buffer.toString(StandardCharsets.UTF_8).stripTrailing());
        buffer.reset();
        count = next;
        if (kept.size() > KEPT) {
            kept.remove();
        }
    }

    /** Writes what was taken. Throws IOException when it cannot. */
    synchronized void flush() throws IOException {
        if (file != null) {
            buffer.writeTo(file);
            size += buffer.size();
            buffer.reset();
            count = next;
        }
    }

    /** Takes back what could not be written as a whole. */
    synchronized void cut() {
        try {
            if (file != null) {
                file.getChannel().truncate(size);
            }
        } catch (IOException error) {
            return; // whoever reads it leaves out a last line that is torn
        }
    }

    synchronized long count() {
        return count;
    }

    synchronized long size() {
        return size;
    }

    /** Where they are; null: in memory. */
    String place() {
        return path == null ? null : path.toString();
    }

    /** The lines from a number on, counted from 0; not more than an answer may hold. */
    List<String> from(long first) {
        if (path == null) {
            synchronized (this) {
                return kept.stream().skip(Math.max(0, first - (count - kept.size()))).limit(ANSWERED).toList();
            }
        }
        try (Stream<String> lines = Files.lines(path)) {
            return lines.limit(count()).skip(first).limit(ANSWERED).toList();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
