package fencepost.proxy;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** What is to become a line of the record: a message as it is, or a line that is made already. */
interface Event {
    byte LINE = 1;
    byte REQUEST = 2;
    byte ANSWER = 3;
    long NOT_RETURNED = Long.MIN_VALUE;

    byte kind();

    /** The most bytes that `write` writes. */
    int size();

    void write(ByteBuffer into);

    /** Reads what `write` has written, up to the limit. Throws RuntimeException for what it has not. */
    static Event read(byte kind, ByteBuffer from) {
        return switch (kind) {
            case LINE -> new Line(bytes(from, from.remaining()));
            case REQUEST -> Request.read(from);
            case ANSWER -> Answer.read(from);
            default -> throw new IllegalArgumentException("there is no kind " + kind);
        };
    }

    private static byte[] bytes(ByteBuffer from, int count) {
        byte[] bytes = new byte[count];
        from.get(bytes);
        return bytes;
    }

    private static ByteBuffer frame(ByteBuffer from, int count) {
        return ByteBuffer.wrap(bytes(from, count));
    }

    /** Copies a message, or the beginning of one, as it is. */
    private static void write(ByteBuffer frame, int count, ByteBuffer into) {
        if (frame.hasArray()) {
            into.put(frame.array(), frame.arrayOffset(), count); // costs a fraction of what a copy between buffers does
        } else {
            into.put(frame.duplicate().rewind().limit(count));
        }
    }

    private static Origin origin(ByteBuffer from) {
        long connection = from.getLong();
        return new Origin(text(from), connection, text(from));
    }

    private static String text(ByteBuffer from) {
        return new String(bytes(from, from.getInt()), StandardCharsets.UTF_8);
    }

    /** A JSON object, without its number. */
    record Line(byte[] object) implements Event {
        @Override
        public byte kind() {
            return LINE;
        }

        @Override
        public int size() {
            return object.length;
        }

        @Override
        public void write(ByteBuffer into) {
            into.put(object);
        }
    }

    /** A request that has arrived. */
    record Request(long number, Origin origin, long arrived, Message message) implements Event {
        @Override
        public byte kind() {
            return REQUEST;
        }

        @Override
        public int size() {
            return 16 + origin.bytes().length + message.frame.limit();
        }

        @Override
        public void write(ByteBuffer into) {
            into.putLong(number).putLong(arrived);
            into.put(origin.bytes());
            Event.write(message.frame, message.frame.limit(), into);
        }

        private static Request read(ByteBuffer from) {
            long number = from.getLong();
            long arrived = from.getLong();
            return new Request(number, Event.origin(from), arrived, Message.request(frame(from, from.remaining())));
        }
    }

    /** The answer to a request. returned: when it went to the client; null: it has not. */
    record Answer(long number, Origin origin, long answered, Long returned, Message message) implements Event {
        @Override
        public byte kind() {
            return ANSWER;
        }

        @Override
        public int size() {
            return 28 + origin.bytes().length + message.request.bodyAt + message.frame.limit();
        }

        @Override
        public void write(ByteBuffer into) {
            into.putLong(number).putLong(answered).putLong(returned == null ? NOT_RETURNED : returned);
            into.put(origin.bytes());
            into.putInt(message.request.bodyAt);
            Event.write(message.request.frame, message.request.bodyAt, into);
            Event.write(message.frame, message.frame.limit(), into);
        }

        private static Answer read(ByteBuffer from) {
            long number = from.getLong();
            long answered = from.getLong();
            long returned = from.getLong();
            Origin origin = Event.origin(from);
            Message request = Message.request(frame(from, from.getInt()));
            Message answer = Message.answer(request, frame(from, from.remaining()));
            return new Answer(number, origin, answered, returned == NOT_RETURNED ? null : returned, answer);
        }
    }
}
