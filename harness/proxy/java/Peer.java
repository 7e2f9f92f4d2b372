package fencepost.proxy;

import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;

/** One side of a connection: the client, or the broker. */
final class Peer {
    final FrameInput in;
    private static final long POLITE_MS = 500; // for the end of TLS
    private final Socket socket;
    private final Socket plain;
    private final OutputStream out;
    private volatile long bytesPerSecond; // 0: no bound

    /** plain: what is below TLS, or the same socket. */
    Peer(Socket socket, Socket plain) throws IOException {
        this.socket = socket;
        this.plain = plain;
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
        if (plain != socket) {
            Thread polite = new Thread(() -> close(socket)); // it waits for whoever writes, and they for who does not read
            polite.setDaemon(true);
            polite.start();
            Waiting.join(polite, POLITE_MS);
        }
        close(plain);
    }

    /** Closes a socket, whatever its state is. */
    static void close(Socket socket) {
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
