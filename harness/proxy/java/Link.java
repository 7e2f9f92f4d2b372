package fencepost.proxy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** The bytes of one side of a connection: plain, or through TLS. */
interface Link {
    /** A buffer that it reads into and writes from without a copy, where there is such memory. */
    ByteBuffer buffer(int size);

    /** Reads what there is, at least one byte; -1 at the end. */
    int read(ByteBuffer into) throws IOException;

    /** As `read`, waiting at most so long. Throws SocketTimeoutException. */
    int readWithin(ByteBuffer into, int millis) throws IOException;

    /** Writes some bytes: all of them, or as many as it takes at once where it may not wait. */
    void write(ByteBuffer from) throws IOException;

    /** Closes it; whoever reads or writes it gets an IOException. */
    void close();

    /** The other side's address as HOST:PORT. */
    String address();

    /** What an event loop waits for; null: it can only be waited for by threads. */
    SocketChannel channel();
}
