package fencepost.proxy;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;

/** Frames of a connection: a size of four bytes, and as many bytes as it says. */
final class FrameInput {
    private static final int ROOM = 1 << 16;
    private final Socket socket;
    private final InputStream in;
    private final byte[] buffer = new byte[ROOM];
    private int from;
    private int to;
    private boolean ended;

    FrameInput(Socket socket) throws IOException {
        this.socket = socket;
        in = socket.getInputStream();
    }

    /** Waits for the next frame; false: the other side has closed the connection between two frames. */
    boolean more() throws IOException {
        return from < to || fill();
    }

    /** The size of the next frame, which may be nonsense; its four bytes stay to be read. Throws EOFException within them. */
    int size() throws IOException {
        demand(4);
        return ByteBuffer.wrap(buffer, from, 4).getInt();
    }

    /** As many bytes as there are of the first `most`, which stay to be read. Throws EOFException when they end before. */
    byte[] beginning(int most) throws IOException {
        demand(most);
        byte[] bytes = new byte[most];
        System.arraycopy(buffer, from, bytes, 0, most);
        return bytes;
    }

    /** A whole frame with its size; null when there is no memory for it, and it is still to be read. Throws EOFException when it ends before. */
    byte[] frame(int size) throws IOException {
        byte[] frame = room(4 + size);
        if (frame == null) {
            return null;
        }
        int taken = take(frame, 0, frame.length);
        while (taken < frame.length) {
            int read = ended ? -1 : in.read(frame, taken, frame.length - taken);
            if (read < 0) {
                ended = true;
                throw new EOFException("half a frame: " + taken + " of " + frame.length + " bytes");
            }
            taken += read;
        }
        return frame;
    }

    /** Passes on as many bytes, in pieces; throws EOFException when they end before. */
    void pass(OutputStream out, long bytes) throws IOException {
        for (long left = bytes; left > 0;) {
            if (from == to && !filled()) {
                throw new EOFException("half a frame: " + left + " of " + bytes + " bytes are missing");
            }
            int piece = (int) Math.min(left, to - from);
            out.write(buffer, from, piece);
            from += piece;
            left -= piece;
        }
    }

    /** Passes on all that comes until the end, whatever it is. */
    void passAll(OutputStream out) throws IOException {
        while (from < to || fill()) {
            out.write(buffer, from, to - from);
            from = to;
        }
    }

    /** Looks for at most a millisecond whether the other side has closed the connection, as far as there is room to read on. */
    boolean closed() {
        if (ended || to == ROOM) {
            return ended;
        }
        try {
            socket.setSoTimeout(1);
            try {
                int read = in.read(buffer, to, ROOM - to);
                ended = read < 0;
                to += Math.max(read, 0);
            } finally {
                socket.setSoTimeout(0);
            }
        } catch (SocketTimeoutException error) {
            return false;
        } catch (IOException error) {
            ended = true;
        }
        return ended;
    }

    private static byte[] room(int size) {
        try {
            return new byte[size];
        } catch (OutOfMemoryError error) {
            return null;
        }
    }

    private int take(byte[] into, int at, int most) {
        int taken = Math.min(most, to - from);
        System.arraycopy(buffer, from, into, at, taken);
        from += taken;
        return taken;
    }

    private void demand(int bytes) throws IOException {
        if (from + bytes > ROOM) {
            System.arraycopy(buffer, from, buffer, 0, to - from);
            to -= from;
            from = 0;
        }
        while (to - from < bytes) {
            if (!fill()) {
                throw new EOFException("half a frame: " + (to - from) + " bytes");
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
        if (from == to) {
            from = 0;
            to = 0;
        }
        int read = ended ? -1 : in.read(buffer, to, ROOM - to);
        ended = read < 0;
        to += Math.max(read, 0);
        return !ended;
    }
}
