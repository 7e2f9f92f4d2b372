package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;

/** The lines of the record: in a file, each in the kernel's hands before its message goes on; without one, the newest in memory. */
final class RecordLines {
    private static final int KEPT = 20_000;
    private static final int ANSWERED = 10_000; // lines of one answer to GET /record
    private final Path path; // null: in memory
    private final FileOutputStream file;
    private final Deque<String> kept = new ArrayDeque<>();
    private long count;
    private long size; // of the file, as far as lines are whole
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

    void add(ObjectNode line) {
        byte[] text = bytes(line);
        if (file == null) {
            keep(new String(text, 0, text.length - 1, StandardCharsets.UTF_8));
        } else {
            write(text);
        }
    }

    private static byte[] bytes(ObjectNode line) {
        try {
            byte[] text = Codec.JSON.writeValueAsBytes(line);
            byte[] whole = Arrays.copyOf(text, text.length + 1);
            whole[text.length] = '\n';
            return whole;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private synchronized void keep(String text) {
        count++;
        kept.add(text);
        if (kept.size() > KEPT) {
            kept.remove();
        }
    }

    /** After a line that could not be written there is none: with a hole in it a record would say what never happened. */
    private synchronized void write(byte[] text) {
        if (trouble != null) {
            return;
        }
        try {
            file.write(text);
            size += text.length;
            count++;
        } catch (IOException error) { // traffic goes on; GET /status says it
            end(String.valueOf(error.getMessage()));
        }
    }

    private void end(String why) {
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
