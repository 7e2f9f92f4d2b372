package fencepost.proxy;

import java.io.EOFException;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;

/** Frames of a connection: a size of four bytes, and as many bytes as it says. */
final class FrameInput {
    static final int ROOM = 1 << 16;
    private static final int MOST_BEHIND = 1 << 23; // bytes that are kept behind a message that is held, for only behind them its client's end is seen
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);
    private final Link link;
    private final Buffers buffers;
    private ByteBuffer buffer = NOTHING; // its own, or, while an event loop reads it, the loop's: what is not taken yet is between position and limit
    private ByteBuffer longFrame; // of `buffers`, in use; null: none
    private ByteBuffer last; // the frame that was read last, if its bytes are in `buffer`, too, and that outside the heap; null: they are not
    private int lastAt; // where they are in it
    private int more; // bytes beyond ROOM that are lent for it
    private boolean ended;

    FrameInput(Link link, Buffers buffers) {
        this.link = link;
        this.buffers = buffers;
    }

    /** Waits for the next frame; false: the other side has closed the connection between two frames. */
    boolean more() throws IOException {
        return buffer.hasRemaining() || fill();
    }

    /** The size of the next frame, which may be nonsense; its four bytes stay to be read. Throws EOFException within them. */
    int size() throws IOException {
        demand(4);
        return buffer.getInt(buffer.position());
    }

    /** As many bytes as there are of the first `most`, which stay to be read. Throws EOFException when they end before. */
    ByteBuffer beginning(int most) throws IOException {
        demand(most);
        return ByteBuffer.allocate(most).put(buffer.slice().limit(most)).flip();
    }

    /**
     * A whole frame with its size; null when there is no memory for it, and it is still to be read. It is there until `done` at least. Throws
     * EOFException when it ends before.
     */
    ByteBuffer frame(int size) throws IOException {
        ByteBuffer frame = room(4 + size);
        if (frame == null) {
            return null;
        }
        take(frame);
        last = frame.hasRemaining() || !buffer.isDirect() ? null : frame;
        lastAt = buffer.position() - frame.limit();
        while (frame.hasRemaining()) {
            int read = ended ? -1 : link.read(frame);
            if (read < 0) {
                ended = true;
                throw new EOFException("half a frame: " + frame.position() + " of " + frame.limit() + " bytes");
            }
        }
        return frame.flip();
    }

    /** The bytes of a frame, for its reader before he reads on: from where the kernel takes them without another copy, if they are there. */
    ByteBuffer bytes(ByteBuffer frame) {
        return frame == last ? buffer.duplicate().limit(lastAt + frame.limit()).position(lastAt) : frame.duplicate();
    }

    /** The frame that was read last has gone on: its memory is for others. */
    void done() {
        if (longFrame != null) {
            buffers.give(longFrame);
            longFrame = null;
        }
    }

    /** Forgets what is left. */
    void forget() {
        buffers.takeBack(more);
        more = 0;
        buffer = NOTHING;
    }

    /** True if a frame was read into memory that others get after it. */
    boolean lent(ByteBuffer frame) {
        return frame != null && longFrame == frame;
    }

    /** Passes on as many bytes, in pieces; throws EOFException when they end before. */
    void pass(Sink out, long bytes) throws IOException {
        for (long left = bytes; left > 0;) {
            if (!buffer.hasRemaining() && !filled()) {
                throw new EOFException("half a frame: " + left + " of " + bytes + " bytes are missing");
            }
            int piece = (int) Math.min(left, buffer.remaining());
            ByteBuffer part = buffer.slice().limit(piece);
            buffer.position(buffer.position() + piece);
            left -= piece;
            out.write(part);
        }
    }

    /** Passes on all that comes until the end, whatever it is. */
    void passAll(Sink out) throws IOException {
        while (buffer.hasRemaining() || fill()) {
            ByteBuffer part = buffer.slice();
            buffer.position(buffer.limit());
            out.write(part);
        }
    }

    /** Takes bytes. */
    interface Sink {
        void write(ByteBuffer bytes) throws IOException;
    }

    /** Takes what has come behind a message that is held, MOST_BEHIND at most, and returns whether the other side has closed the connection behind it. */
    boolean closed() {
        try {
            while (!ended && behind()) {
                ended = append(true) < 0;
            }
        } catch (SocketTimeoutException | OutOfMemoryError error) {
            return false;
        } catch (IOException error) {
            ended = true;
        }
        return ended;
    }

    /** Makes room for what is behind a message that is held; false: that is too much. */
    private boolean behind() {
        own();
        if (buffer.limit() == buffer.capacity() && buffer.capacity() < MOST_BEHIND && buffers.lend(buffer.capacity())) {
            more += buffer.capacity();
            buffer = ByteBuffer.allocate(2 * buffer.capacity()).put(buffer).flip();
        }
        return buffer.limit() < buffer.capacity();
    }

    /** Reads what comes within a millisecond. */
    private int arrived(ByteBuffer into) throws IOException {
        int limit = into.limit();
        try {
            return link.readWithin(into.limit(Math.min(limit, into.position() + ROOM)), 1);
        } finally {
            into.limit(limit);
        }
    }

    /** Reads what there is without waiting, behind what was left, into a buffer of ROOM that connections share: until `leave`. */
    void readNow(ByteBuffer shared) throws IOException {
        shared.clear();
        if (buffer.hasRemaining()) { // a copy of nothing costs as much as one of a message
            shared.put(buffer);
        }
        buffer = shared.flip();
        ended = append(false) < 0;
    }

    /** Copies what is left out of a buffer that connections share. */
    void leave() {
        buffer = buffer.hasRemaining() ? ByteBuffer.allocate(buffer.remaining()).put(buffer).flip() : NOTHING;
        last = null;
    }

    /** True if the next frame is here as a whole; its size may be nonsense. */
    boolean whole() {
        return buffer.remaining() >= 4 && buffer.remaining() - 4 >= buffer.getInt(buffer.position());
    }

    /** True if what is left is the beginning of a frame that `readNow` can read to its end. */
    boolean fits() {
        return !buffer.hasRemaining() || buffer.remaining() < 4 || buffer.getInt(buffer.position()) <= ROOM - 4;
    }

    /** A number within the next frame, which is here as a whole. */
    int peek(int at) {
        return buffer.getInt(buffer.position() + at);
    }

    boolean ended() {
        return ended;
    }

    /** True if nothing is left to be taken. */
    boolean empty() {
        return !buffer.hasRemaining();
    }

    private ByteBuffer room(int size) {
        ByteBuffer free = size > ROOM && size <= Buffers.SIZE && longFrame == null ? buffers.take() : null;
        if (free != null) {
            longFrame = free;
            return free.limit(size);
        }
        try {
            return ByteBuffer.allocate(size);
        } catch (OutOfMemoryError error) {
            return null;
        }
    }

    private void take(ByteBuffer into) {
        int taken = Math.min(into.remaining(), buffer.remaining());
        into.put(into.position(), buffer, buffer.position(), taken).position(into.position() + taken);
        buffer.position(buffer.position() + taken);
    }

    private void demand(int bytes) throws IOException {
        while (buffer.remaining() < bytes) {
            if (!fill()) {
                throw new EOFException("half a frame: " + buffer.remaining() + " bytes");
            }
        }
    }

    /** As `fill`; a connection that breaks in the middle of a frame has ended there. */
    private boolean filled() {
        try {
            return fill();
        } catch (IOException error) {
            ended = true;
            return false;
        }
    }

    /** Reads what there is behind what is not read yet; false at the end. */
    private boolean fill() throws IOException {
        own();
        ended = ended || append(false) < 0;
        return !ended;
    }

    /** Puts what is left at the beginning of a buffer of its own. */
    private void own() {
        last = null;
        if (buffer.capacity() > ROOM && !buffer.hasRemaining()) {
            forget();
        }
        if (buffer.capacity() < ROOM) {
            buffer = link.buffer(ROOM).put(buffer).flip();
        } else if (!buffer.hasRemaining() || buffer.capacity() - buffer.limit() < ROOM / 2) {
            buffer.compact().flip();
        }
    }

    /** Reads behind what is not taken yet. briefly: waits a millisecond at most. */
    private int append(boolean briefly) throws IOException {
        int from = buffer.position();
        int to = buffer.limit();
        buffer.limit(buffer.capacity()).position(to);
        try {
            return briefly ? arrived(buffer) : link.read(buffer);
        } finally {
            buffer.limit(buffer.position()).position(from);
        }
    }
}
