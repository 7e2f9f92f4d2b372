package fencepost;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.function.BooleanSupplier;

/** Frames in both directions: four bytes of length, big-endian, then one JSON object. Any thread may write. */
final class Channel {
    private static final int HEADER = 4;
    private static final int LARGEST = 64 << 20;

    private final DataInputStream in;
    private final OutputStream out;

    Channel(InputStream in, OutputStream out) {
        this.in = new DataInputStream(in);
        this.out = out;
    }

    /** The next object, null at the end of the stream. */
    JsonObject read() throws IOException {
        try {
            byte[] body = new byte[length(in.readInt())];
            in.readFully(body);
            return JsonParser.parseString(new String(body, StandardCharsets.UTF_8)).getAsJsonObject();
        } catch (EOFException end) {
            return null;
        }
    }

    private static int length(int length) throws IOException {
        if (length < 0 || length > LARGEST) {
            throw new IOException("a frame of " + (length & 0xffffffffL) + " bytes; at most " + LARGEST + " are possible");
        }
        return length;
    }

    /** Writes one object as a frame. */
    void write(JsonObject message) {
        write(message, () -> true);
    }

    /** Writes one object as a frame if the condition holds under the lock of this channel. */
    void write(JsonObject message, BooleanSupplier condition) {
        byte[] frame = frame(message);
        synchronized (this) {
            if (condition.getAsBoolean()) {
                put(frame);
            }
        }
    }

    private void put(byte[] frame) {
        try {
            out.write(frame);
            out.flush();
        } catch (IOException gone) {
            Runtime.getRuntime().halt(0); // nobody reads any more
        }
    }

    private static byte[] frame(JsonObject message) {
        byte[] body = message.toString().getBytes(StandardCharsets.UTF_8);
        if (body.length > LARGEST) {
            throw new UncheckedIOException(new IOException("a frame of " + body.length + " bytes; at most " + LARGEST + " are possible"));
        }
        return ByteBuffer.allocate(HEADER + body.length).putInt(body.length).put(body).array();
    }
}
