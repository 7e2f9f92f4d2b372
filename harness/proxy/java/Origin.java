package fencepost.proxy;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** The connection on which a message came, as the record names it. bytes: the same as a journal has it. */
record Origin(String node, long connection, String client, byte[] bytes) {
    Origin(String node, long connection, String client) {
        this(node, connection, client, bytes(node.getBytes(StandardCharsets.UTF_8), connection, client.getBytes(StandardCharsets.UTF_8)));
    }

    private static byte[] bytes(byte[] node, long connection, byte[] client) {
        ByteBuffer bytes = ByteBuffer.allocate(16 + node.length + client.length).putLong(connection);
        return bytes.putInt(node.length).put(node).putInt(client.length).put(client).array();
    }
}
