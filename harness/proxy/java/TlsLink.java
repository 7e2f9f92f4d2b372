package fencepost.proxy;

import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLSocket;

/** A connection with TLS. plain: the socket below it. */
record TlsLink(SSLSocket socket, Socket plain) implements Link {
    private static final long POLITE_MS = 500; // for the end of TLS
    private static final int PIECE = 1 << 14; // of a record of TLS

    @Override
    public ByteBuffer buffer(int size) {
        return ByteBuffer.allocate(size);
    }

    @Override
    public int read(ByteBuffer into) throws IOException {
        byte[] bytes = into.hasArray() ? into.array() : new byte[into.remaining()];
        int at = into.hasArray() ? into.arrayOffset() + into.position() : 0;
        int read = socket.getInputStream().read(bytes, at, into.remaining());
        if (into.hasArray()) {
            into.position(into.position() + Math.max(read, 0));
        } else {
            into.put(bytes, 0, Math.max(read, 0));
        }
        return read;
    }

    @Override
    public int readWithin(ByteBuffer into, int millis) throws IOException {
        socket.setSoTimeout(millis);
        try {
            return read(into);
        } finally {
            socket.setSoTimeout(0);
        }
    }

    @Override
    public void write(ByteBuffer from) throws IOException {
        byte[] bytes = new byte[Math.min(PIECE, from.remaining())];
        from.get(bytes);
        socket.getOutputStream().write(bytes);
    }

    @Override
    public void close() {
        Thread polite = new Thread(() -> Peer.close(socket)); // it waits for whoever writes, and they for who does not read
        polite.setDaemon(true);
        polite.start();
        Waiting.join(polite, POLITE_MS);
        Peer.close(plain);
    }

    @Override
    public String address() {
        return Address.peer(plain);
    }

    @Override
    public SocketChannel channel() {
        return null;
    }
}
