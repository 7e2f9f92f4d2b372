package fencepost.proxy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.zip.CRC32;

/**
 * Events in two files of a fixed size, mapped into memory: one after the other takes events until it is full, and again from its beginning when all that it has
 * are lines. An entry is its length, a checksum, the lap in which its file was filled, the number of the event, its kind and its content. Marks between them say
 * up to which event there are lines, how many, and how many bytes of them. So who finds the files of a proxy that was killed knows what its lines lack
 * (harness/proxy/journal.py).
 */
final class Segments {
    static final int HEAD = 21; // of an entry; its length and checksum are of what follows both
    static final byte MARK = 0;
    private static final int BEFORE = 8; // length and checksum
    private static final int SIZE = 4 << 20;
    private final Path[] paths;
    private final MappedByteBuffer[] files = new MappedByteBuffer[2];
    private final long[] last = new long[2]; // the number of the last event in each file
    private final CRC32 sum = new CRC32();
    private ByteBuffer entry = ByteBuffer.allocate(1 << 14);
    private int current;
    private int lap = 1;
    private int at; // where the next entry begins

    /** Throws IOException when there is no room for them. */
    Segments(Path directory, String name) throws IOException {
        paths = new Path[] {directory.resolve(name + ".journal-0"), directory.resolve(name + ".journal-1")};
        try {
            for (int i = 0; i < 2; i++) {
                files[i] = mapped(paths[i]);
            }
        } catch (IOException error) {
            remove();
            throw error;
        }
    }

    /** Zeros are written, so that the disk has room for all that will be. */
    private static MappedByteBuffer mapped(Path path) throws IOException {
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            for (ByteBuffer zeros = ByteBuffer.allocate(SIZE); zeros.hasRemaining();) {
                file.write(zeros);
            }
            return file.map(MapMode.READ_WRITE, 0, SIZE);
        }
    }

    /** True if an event can be there, now or when others are lines. */
    static boolean fits(Event event) {
        return event.size() < SIZE / 2;
    }

    /** True if there is no room for an event until more than the first `done` events are lines. */
    boolean isFull(Event event, long done) {
        return !hasRoom(event) && last[1 - current] > done;
    }

    /** Takes an event, for which there must be room. done: how many events are lines; lines, bytes: how many these are. */
    void add(long number, Event event, long done, long lines, long bytes) {
        if (!hasRoom(event)) {
            current = 1 - current;
            lap++;
            at = 0;
            mark(done, lines, bytes);
        }
        ByteBuffer content = begin(event.size(), number, event.kind());
        event.write(content);
        put(content);
        last[current] = number;
    }

    private boolean hasRoom(Event event) {
        return HEAD + event.size() <= SIZE - at;
    }

    /** Says up to which event there are lines, where there is room for it. */
    void mark(long number, long lines, long bytes) {
        ByteBuffer content = begin(16, number, MARK).putLong(lines).putLong(bytes);
        if (content.position() <= SIZE - at) {
            put(content);
        }
    }

    /** Removes both: all is in lines. */
    void remove() throws IOException {
        for (Path path : paths) {
            Files.deleteIfExists(path);
        }
    }

    private ByteBuffer begin(int most, long number, byte kind) {
        if (entry.capacity() < HEAD + most) {
            entry = ByteBuffer.allocate(HEAD + most);
        }
        return entry.clear().position(BEFORE).putInt(lap).putLong(number).put(kind);
    }

    private void put(ByteBuffer content) {
        int length = content.position() - BEFORE;
        sum.reset();
        sum.update(content.array(), BEFORE, length);
        content.putInt(0, length).putInt(4, (int) sum.getValue());
        files[current].put(at, content.array(), 0, content.position());
        at += content.position();
    }
}
