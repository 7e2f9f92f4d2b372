package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/** A request or an answer: a frame, its size included, and what is read of it only when somebody asks. */
final class Message {
    static final int HEAD = 12; // size, API key, version, correlation id
    final ApiMessageType type; // null: this release of Kafka has no such API
    final short key;
    final short version;
    final int correlation;
    final String clientId;
    final Message request; // of an answer; null in a request
    ByteBuffer frame; // from its first byte to its limit; null: let go
    String idState; // of a request: that of its transactional id when it arrived, if a rule may ask for it; null: not known
    int bodyAt = -1; // -1: its header cannot be read
    private ByteBuffer head; // its header, when its frame is let go
    private ApiMessage body;
    private JsonNode json;
    private Facts facts;
    private boolean unreadable;

    private Message(ByteBuffer frame, Message request, ApiMessageType type, short key, short version, String clientId, int at) {
        this.frame = frame;
        this.request = request;
        this.type = type;
        this.key = key;
        this.version = version;
        this.clientId = clientId;
        this.bodyAt = at;
        correlation = frame.getInt(request == null ? 8 : 4);
    }

    /** A request of at least HEAD bytes. */
    static Message request(ByteBuffer frame) {
        ByteBuffer head = frame.duplicate();
        short key = head.getShort(4);
        short version = head.getShort(6);
        ApiMessageType type = Codec.type(key);
        if (!Codec.knows(type, version)) {
            return new Message(frame, null, type, key, version, null, -1);
        }
        try {
            head.position(4);
            RequestHeaderData header = new RequestHeaderData();
            header.read(new ByteBufferAccessor(head), type.requestHeaderVersion(version));
            return new Message(frame, null, type, key, version, header.clientId(), head.position());
        } catch (RuntimeException error) {
            return new Message(frame, null, type, key, version, null, -1);
        }
    }

    /** The answer to a request. */
    static Message answer(Message request, ByteBuffer frame) {
        int at = -1;
        try {
            ByteBuffer head = frame.duplicate();
            head.position(4);
            if (request.bodyAt >= 0) {
                new ResponseHeaderData().read(new ByteBufferAccessor(head), request.type.responseHeaderVersion(request.version));
                at = head.position();
            }
        } catch (RuntimeException error) {
            at = -1;
        }
        return new Message(frame, request, request.type, request.key, request.version, request.clientId, at);
    }

    String api() {
        return api(type, key);
    }

    /** The name of an API by its type, where this release of Kafka has one. */
    static String api(ApiMessageType type, short key) {
        return type == null ? "key " + key : type.name;
    }

    boolean isAnswer() {
        return request != null;
    }

    /** The body; null when it cannot be read. */
    ApiMessage body() {
        if (body == null && !unreadable) {
            try {
                if (bodyAt < 0) {
                    throw new IllegalArgumentException("no header");
                }
                body = Codec.read(isAnswer() ? type.newResponse() : type.newRequest(), version, frame, bodyAt);
            } catch (RuntimeException | LinkageError error) {
                unreadable = true;
            }
        }
        return body;
    }

    /** The body in Kafka's JSON, without the bytes of records; null when it cannot be read. */
    JsonNode json() {
        if (json == null && body() != null) {
            json = Codec.json(body, version, false);
        }
        return json;
    }

    /** What it says of transactions, groups and partitions; empty when it cannot be read. */
    Facts facts() {
        if (facts == null) {
            facts = new Facts(this);
        }
        return facts;
    }

    /** The same message, of a frame with the same bytes: nobody else reads it, or puts another body into its place. */
    Message copy(ByteBuffer same) {
        return new Message(same, request == null ? null : request.copy(request.frame == null ? request.head : request.frame), type, key, version, clientId, bodyAt);
    }

    /** Copies its frame out of memory that other frames get after it. */
    void keep() {
        if (frame != null && frame.isDirect()) {
            frame = ByteBuffer.allocate(frame.limit()).put(frame.duplicate()).flip();
            body = null; // its records lie in the frame
        }
    }

    /** Lets go of its frame, which nobody needs any more; what it says of transactions, groups and partitions stays. */
    void letGo() {
        facts();
        head = head();
        frame = null;
    }

    /** The bytes of its header, its size included. */
    ByteBuffer head() {
        return frame == null ? head.duplicate() : ByteBuffer.wrap(new byte[Math.max(bodyAt, 0)]).put(frame.duplicate().rewind().limit(Math.max(bodyAt, 0))).flip();
    }

    /** Puts another body into its place, or the same one after it was changed. */
    void replace(ApiMessage changed) {
        frame = Codec.frame(frame, bodyAt, changed, version);
        body = changed;
        json = null;
        facts = null;
    }

    /** Puts another frame, made for the same request, into its place. */
    Message with(ByteBuffer other) {
        return answer(request, other);
    }
}
