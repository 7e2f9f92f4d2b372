package fencepost.proxy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;

/**
 * Serves connections in one thread as long as nothing of them has to wait. A connection gets two threads of its own, for good, when a rule may act on
 * its next message, when a frame is longer than what is read at once, and when one of its sides does not take what is written.
 */
final class EventLoop {
    private static final int FAILED = 70; // the exit code of an internal error
    private final Process process;
    private final Queue<Connection> added = new ConcurrentLinkedQueue<>();
    private final List<Connection> leaving = new ArrayList<>();
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(FrameInput.ROOM);
    private final Consumer<SelectionKey> serving = this::serve;
    private final Selector selector;

    EventLoop(Process process) throws IOException {
        this.process = process;
        selector = Selector.open();
    }

    void start() {
        process.threads.start("event loop", this::run);
    }

    /** Serves a connection from now on. Throws IOException when it has ended already. */
    void add(Connection connection) throws IOException {
        for (Peer side : connection.sides()) {
            side.waits(false);
            side.link.channel().configureBlocking(false);
        }
        added.add(connection);
        selector.wakeup();
    }

    private void run() {
        while (true) {
            try {
                take(); // before it waits: selecting in `leave` may have swallowed the wake-up
                selector.select(serving);
                leave();
            } catch (IOException | RuntimeException error) { // of one connection it would have been caught: nothing is served any more
                process.counts.failure(error);
                Runtime.getRuntime().halt(FAILED);
            }
        }
    }

    private void take() {
        for (Connection connection = added.poll(); connection != null; connection = added.poll()) {
            try {
                connection.clientSide.link.channel().register(selector, SelectionKey.OP_READ, new Side(connection, true));
                connection.brokerSide.link.channel().register(selector, SelectionKey.OP_READ, new Side(connection, false));
            } catch (IOException error) {
                connection.end("client", "client closed");
            }
        }
    }

    /** A side of a connection. */
    private record Side(Connection connection, boolean client) {}

    private void serve(SelectionKey key) {
        Side side = (Side) key.attachment();
        if (!side.connection.ended() && !leaving.contains(side.connection) && !served(side)) {
            leaving.add(side.connection);
        }
    }

    private boolean served(Side side) {
        try {
            return side.client ? side.connection.requests.serveReady(buffer) : side.connection.answers.serveReady(buffer);
        } catch (RuntimeException | OutOfMemoryError error) {
            process.counts.failure(error);
            side.connection.end("client", "client closed");
            return true;
        }
    }

    /** Lets connections go that need threads. */
    private void leave() throws IOException {
        if (leaving.isEmpty()) {
            return;
        }
        for (Connection connection : leaving) {
            for (Peer side : connection.sides()) {
                SelectionKey key = side.link.channel().keyFor(selector);
                if (key != null) {
                    key.cancel();
                }
            }
        }
        selector.selectNow(); // a channel with a key may not wait
        for (Connection connection : leaving) {
            threads(connection);
        }
        leaving.clear();
    }

    private static void threads(Connection connection) {
        for (Peer side : connection.sides()) {
            try {
                side.link.channel().configureBlocking(true);
            } catch (IOException error) {
                // it is closed: its thread comes upon that
            }
            side.waits(true);
        }
        connection.startThreads();
    }
}
