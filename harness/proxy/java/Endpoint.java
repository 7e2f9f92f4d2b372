package fencepost.proxy;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A listener, and the broker that its connections lead to. */
final class Endpoint {
    private static final int BACKLOG = 1024;
    final String node;
    final Address upstream;
    final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private final Process process;
    private final ServerSocketChannel server;

    /** Listens. Throws IOException when it cannot. */
    Endpoint(Process process, String node, Address listen, Address upstream) throws IOException {
        this.process = process;
        this.node = node;
        this.upstream = upstream;
        InetSocketAddress address = listen.socket();
        if (address.isUnresolved()) {
            throw new IOException("cannot listen at " + listen + ": Unresolved address; choose another address or port");
        }
        server = ServerSocketChannel.open().setOption(StandardSocketOptions.SO_REUSEADDR, true);
        try {
            server.bind(address, BACKLOG);
        } catch (IOException error) {
            throw new IOException("cannot listen at " + listen + ": " + error.getMessage() + "; choose another address or port", error);
        }
    }

    Address listens() {
        return new Address(server.socket().getInetAddress().getHostAddress(), server.socket().getLocalPort());
    }

    void accept() {
        while (server.isOpen()) {
            try {
                SocketChannel channel = server.accept();
                long number = process.nextConnection();
                begin(number, channel);
            } catch (IOException error) {
                Waiting.sleep(10_000_000); // no more files, or the end
            }
        }
    }

    private void begin(long number, SocketChannel channel) {
        try {
            process.threads.start("requests " + number, () -> serve(number, channel));
        } catch (OutOfMemoryError error) { // the next one may be served again
            process.counts.unreached(upstream + ": no memory for another thread");
            close(channel);
        }
    }

    private void serve(long number, SocketChannel channel) {
        SocketChannel broker = null;
        String other = "client " + Address.peer(channel.socket());
        try {
            Peer client = peer(process.tls.fromClient(channel), channel);
            other = upstream.toString();
            broker = SocketChannel.open();
            Peer upstreamSide = peer(process.tls.toBroker(upstream, broker), broker);
            Connection connection = new Connection(number, process, this, client, upstreamSide);
            connections.add(connection);
            connection.serve();
        } catch (IOException | RuntimeException error) { // the latter of an address that is none
            process.counts.unreached(other + ": " + error.getMessage());
            close(channel);
            close(broker);
        }
    }

    /** Loads what closing a connection needs: without a free descriptor it could not be loaded, then or ever. */
    static void prepare() throws IOException {
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            SocketChannel there = SocketChannel.open(server.getLocalAddress()); SocketChannel here = server.accept()) {
            there.socket().close();
            here.socket().close();
        }
    }

    private Peer peer(Link link, SocketChannel channel) throws IOException {
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        return new Peer(link, process.buffers);
    }

    private static void close(SocketChannel channel) {
        if (channel != null) {
            Peer.close(channel.socket());
        }
    }
}
