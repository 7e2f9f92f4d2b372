package fencepost.proxy;

import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;

/** One side of a connection: the client, or the broker. */
final class Peer {
    final FrameInput in;
    private final Socket socket;
    private final OutputStream out;
    private volatile long bytesPerSecond; // 0: no bound

    Peer(Socket socket) throws IOException {
        this.socket = socket;
        socket.setTcpNoDelay(true);
        in = new FrameInput(socket);
        out = socket.getOutputStream();
    }

    void throttle(long rate) {
        bytesPerSecond = rate;
    }

    /** Writes to it, no faster than it may. */
    void write(byte[] bytes) throws IOException {
        write(bytes, 0, bytes.length);
    }

    private void write(byte[] bytes, int from, int count) throws IOException {
        long rate = bytesPerSecond;
        if (rate == 0) {
            out.write(bytes, from, count);
            return;
        }
        int piece = (int) Math.max(1, Math.min(count, rate / 20));
        for (int at = from; at < from + count; at += piece) {
            int bytesNow = Math.min(piece, from + count - at);
            Waiting.sleep(1_000_000_000L * bytesNow / rate);
            out.write(bytes, at, bytesNow);
        }
    }

    /** What is written into this stream goes to it. */
    OutputStream stream() {
        return new OutputStream() {
            @Override
            public void write(int one) throws IOException {
                Peer.this.write(new byte[] {(byte) one});
            }

            @Override
            public void write(byte[] bytes, int at, int count) throws IOException {
                Peer.this.write(bytes, at, count);
            }
        };
    }

    /** Closes it; whoever reads or writes it gets an IOException. */
    void close() {
        try {
            socket.close();
        } catch (IOException error) {
            return; // it is closed as well as it can be
        }
    }

    /** The other side's address as HOST:PORT. */
    String address() {
        return socket.getInetAddress().getHostAddress() + ":" + socket.getPort();
    }
}
