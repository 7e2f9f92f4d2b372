package fencepost.proxy;

import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** A connection without TLS. */
record PlainLink(SocketChannel channel) implements Link {
    private static final int PIECE = 1 << 17; // of what is in the heap: the JDK keeps a buffer of its size for each thread

    @Override
    public ByteBuffer buffer(int size) {
        return ByteBuffer.allocateDirect(size);
    }

    @Override
    public int read(ByteBuffer into) throws IOException {
        if (into.isDirect() || into.remaining() <= PIECE) {
            return channel.read(into);
        }
        int limit = into.limit();
        try {
            return channel.read(into.limit(into.position() + PIECE));
        } finally {
            into.limit(limit);
        }
    }

    @Override
    public int readWithin(ByteBuffer into, int millis) throws IOException {
        Socket socket = channel.socket();
        byte[] bytes = new byte[into.remaining()];
        socket.setSoTimeout(millis);
        try {
            int read = socket.getInputStream().read(bytes);
            into.put(bytes, 0, Math.max(read, 0));
            return read;
        } finally {
            socket.setSoTimeout(0);
        }
    }

    @Override
    public void write(ByteBuffer from) throws IOException {
        if (from.isDirect() || from.remaining() <= PIECE) {
            channel.write(from);
            return;
        }
        int limit = from.limit();
        try {
            channel.write(from.limit(from.position() + PIECE));
        } finally {
            from.limit(limit);
        }
    }

    @Override
    public void close() {
        Peer.close(channel.socket());
    }

    @Override
    public String address() {
        return Address.peer(channel.socket());
    }
}
