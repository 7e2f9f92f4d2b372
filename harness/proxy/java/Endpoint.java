package fencepost.proxy;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A listener, and the broker that its connections lead to. */
final class Endpoint {
    private static final int BACKLOG = 1024;
    final String node;
    final Address upstream;
    final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private final Process process;
    private final ServerSocket server;

    /** Listens. Throws IOException when it cannot. */
    Endpoint(Process process, String node, Address listen, Address upstream) throws IOException {
        this.process = process;
        this.node = node;
        this.upstream = upstream;
        server = new ServerSocket();
        server.setReuseAddress(true);
        try {
            server.bind(listen.socket(), BACKLOG);
        } catch (IOException error) {
            throw new IOException("cannot listen at " + listen + ": " + error.getMessage() + "; choose another address or port", error);
        }
    }

    Address listens() {
        return new Address(server.getInetAddress().getHostAddress(), server.getLocalPort());
    }

    void accept() {
        while (!server.isClosed()) {
            try {
                Socket socket = server.accept();
                long number = process.nextConnection();
                process.threads.start("requests " + number, () -> serve(number, socket));
            } catch (IOException error) {
                Waiting.sleep(10_000_000); // no more files, or the end
            }
        }
    }

    private void serve(long number, Socket socket) {
        Socket broker = new Socket();
        try {
            Peer client = new Peer(process.tls.fromClient(socket), socket);
            Peer upstreamSide = new Peer(process.tls.toBroker(upstream, broker), broker);
            Connection connection = new Connection(number, process, this, client, upstreamSide);
            connections.add(connection);
            connection.run();
        } catch (IOException error) {
            process.counts.unreached(upstream + ": " + error.getMessage());
            Peer.close(socket);
            Peer.close(broker);
        }
    }
}
