package fencepost.proxy;

import java.io.IOException;
import java.net.Socket;

/** Sockets to both sides. */
final class Tls {
    private static final int CONNECT_MS = 10_000;

    /** The client's side of a connection that was accepted. */
    Socket fromClient(Socket socket) throws IOException {
        return socket;
    }

    /** A connection to a broker. */
    Socket toBroker(Address upstream) throws IOException {
        Socket socket = new Socket();
        try {
            socket.connect(upstream.socket(), CONNECT_MS);
            return socket;
        } catch (IOException error) {
            socket.close();
            throw error;
        }
    }
}
