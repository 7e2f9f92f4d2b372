package fencepost.proxy;

import java.nio.ByteBuffer;

/** The acknowledgements that a Produce request wants, without its other fields: they stand behind its transactional id. */
final class Acks {
    private static final short FLEXIBLE = 9; // from this version on the length of a text is a varint, one more than it is; 0: there is none
    private static final short WITH_ID = 3;

    private Acks() {}

    /** 0 also where the request cannot be read. */
    static short of(Message request) {
        try {
            int id = request.version >= FLEXIBLE ? varint(request.frame, request.bodyAt)
                : request.version >= WITH_ID ? 2 + Math.max(0, request.frame.getShort(request.bodyAt)) : 0;
            return request.frame.getShort(request.bodyAt + id);
        } catch (IndexOutOfBoundsException error) {
            return 0;
        }
    }

    /** How many bytes the text takes with its length. */
    private static int varint(ByteBuffer frame, int at) {
        int length = 0;
        int bytes = 0;
        byte next;
        do {
            next = frame.get(at + bytes);
            length |= (next & 0x7f) << (7 * bytes++);
        } while (next < 0 && bytes < 5);
        return bytes + Math.max(0, length - 1);
    }
}
