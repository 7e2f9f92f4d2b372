package fencepost.proxy;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestAndSize;

/** Answers with an error in every field that has one, as Kafka's own classes of requests make them. */
final class ErrorAnswers {
    private ErrorAnswers() {}

    /** The frame of an answer to a request. Throws RuntimeException when Kafka's classes make none (Produce with acks = 0), or one without the error. */
    static ByteBuffer to(Message request, Errors error) {
        AbstractRequest parsed = parse(request);
        AbstractResponse answer = parsed.getErrorResponse(0, error.exception());
        if (answer == null) {
            throw new IllegalArgumentException("Kafka answers no such request");
        }
        ApiMessage body = (ApiMessage) answer.data();
        ByteBuffer header = header(request);
        ByteBuffer frame = Codec.frame(header, header.limit(), body, request.version);
        if (!Message.answer(request, frame.duplicate()).facts().errors.contains(error.name())) {
            throw new IllegalArgumentException("no answer to this " + request.api() + " of version " + request.version + " can have an error");
        }
        return frame;
    }

    /** Kafka's own object of a request; its way to it takes a buffer until Kafka 4.0, and a Readable later. */
    private static AbstractRequest parse(Message request) {
        if (request.frame == null) {
            throw new IllegalArgumentException("the rule came when the request had gone on");
        }
        ByteBuffer body = request.frame.duplicate().position(request.bodyAt).slice();
        Method method = Arrays.stream(AbstractRequest.class.getMethods())
            .filter(candidate -> candidate.getName().equals("parseRequest")).findFirst().orElseThrow();
        Object content = method.getParameterTypes()[2] == ByteBuffer.class ? body : new ByteBufferAccessor(body);
        return ((RequestAndSize) Codec.call(method, ApiKeys.forId(request.key), request.version, content)).request;
    }

    /** The size, to be written over, and the header of an answer. */
    private static ByteBuffer header(Message request) {
        ResponseHeaderData header = new ResponseHeaderData().setCorrelationId(request.correlation);
        return Codec.frame(ByteBuffer.allocate(4), 4, header, request.type.responseHeaderVersion(request.version));
    }
}
