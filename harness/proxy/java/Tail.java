package fencepost.proxy;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;

/**
 * Makes the last lines of the record of a proxy that was killed: of events on standard input as `Segments` has them, without marks. Its argument is the number of
 * the first line. A topic that is given by its id keeps it as its name.
 */
public final class Tail {
    private Tail() {}

    public static void main(String[] arguments) throws IOException {
        long number = Long.parseLong(arguments[0]);
        LineMaker maker = new LineMaker(new Counts(), new IdStates(new Watches()));
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        try (OutputStream out = new BufferedOutputStream(System.out)) {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            long[] next = {number};
            for (Event event = next(in); event != null; event = next(in)) {
                maker.make(event, object -> {
                    RecordLines.write(line, object, next[0]++);
                    line.writeTo(out);
                    line.reset();
                });
            }
        }
    }

    /** The next event; null: there is none. */
    private static Event next(DataInputStream in) throws IOException {
        int length;
        try {
            length = in.readInt();
        } catch (EOFException end) {
            return null;
        }
        ByteBuffer content = ByteBuffer.wrap(in.readNBytes(4 + length));
        return Event.read(content.get(Segments.HEAD - 5), content.position(Segments.HEAD - 4));
    }
}
