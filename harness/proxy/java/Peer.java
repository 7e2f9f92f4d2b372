package fencepost.proxy;

import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;

/** One side of a connection: the client, or the broker. */
final class Peer {
    final FrameInput in;
    final Link link;
    private volatile long bytesPerSecond; // 0: no bound
    private boolean waits = true; // false: an event loop serves it, which may not wait
    private ByteBuffer left; // what it did not take at once; null: nothing

    Peer(Link link, Buffers buffers) {
        this.link = link;
        in = new FrameInput(link, buffers);
    }

    void throttle(long rate) {
        bytesPerSecond = rate;
    }

    /** Says whether writing may wait, or keeps what is not taken at once. */
    synchronized void waits(boolean may) {
        waits = may;
    }

    /** True if it has not taken all that was written to it. */
    synchronized boolean full() {
        return left != null;
    }

    /** Writes to it, no faster than it may. */
    synchronized void write(ByteBuffer bytes) throws IOException {
        if (waits) {
            flush();
            all(bytes);
        } else if (left == null) {
            link.write(bytes);
            left = bytes.hasRemaining() ? copy(bytes) : null;
        } else {
            left = copy(ByteBuffer.allocate(left.remaining() + bytes.remaining()).put(left).put(bytes).flip());
        }
    }

    /** Writes what it did not take at once. */
    synchronized void flush() throws IOException {
        ByteBuffer bytes = left;
        left = null;
        if (bytes != null) {
            all(bytes);
        }
    }

    private void all(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            long rate = bytesPerSecond;
            int piece = rate == 0 ? bytes.remaining() : (int) Math.max(1, Math.min(bytes.remaining(), rate / 20));
            if (rate != 0) {
                Waiting.sleep(1_000_000_000L * piece / rate);
            }
            ByteBuffer part = bytes.slice().limit(piece);
            link.write(part);
            bytes.position(bytes.position() + part.position());
        }
    }

    private static ByteBuffer copy(ByteBuffer bytes) {
        return ByteBuffer.allocate(bytes.remaining()).put(bytes).flip();
    }

    /** Closes it; whoever reads or writes it gets an IOException. */
    void close() {
        link.close();
    }

    /** Closes a socket, whatever its state is. */
    static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException error) {
            return; // it is closed as well as it can be
        }
    }
}
