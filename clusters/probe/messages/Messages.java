package fencepost;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * A codec of Kafka's messages, those of the kafka-clients on its class path, as Kafka's own JSON of them: a question per line of
 * standard input, its answer per line of standard output. {"api", "version", "request"}: the bytes of a request; {"api", "version",
 * "response"}: the fields of a response; {"code"}: the name of an error; {"producerId", "epoch", "sequence", "value"}: the bytes of
 * a transactional batch.
 */
public final class Messages {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Messages() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // whatever a library prints is no answer
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            out.flush();
        }
    }

    private static ObjectNode answer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            if (question.has("request")) {
                encode(question, answer);
            } else if (question.has("response")) {
                decode(question, answer);
            } else if (question.has("code")) {
                answer.put("name", Errors.forCode((short) question.get("code").asInt()).name());
            } else {
                answer.put("bytes", Base64.getEncoder().encodeToString(bytes(batch(question))));
            }
        } catch (Exception | LinkageError error) {
            Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
            answer.put("error", cause.toString());
        }
        return answer;
    }

    private static void encode(JsonNode question, ObjectNode answer) throws ReflectiveOperationException {
        ApiMessageType type = ApiMessageType.fromApiKey((short) question.get("api").asInt());
        short version = (short) question.get("version").asInt();
        ObjectNode fields = (ObjectNode) json(type.newRequest(), version);
        fields.setAll((ObjectNode) question.get("request"));
        Message message = message(type.newRequest().getClass(), fields, version);
        ObjectSerializationCache sizes = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(sizes, version));
        message.write(new ByteBufferAccessor(buffer), sizes, version);
        buffer.flip();
        answer.put("bytes", Base64.getEncoder().encodeToString(bytes(buffer)));
        answer.put("flexible", type.requestHeaderVersion(version) > 1);
        answer.put("plainReply", type.responseHeaderVersion(version) == 0);
    }

    private static void decode(JsonNode question, ObjectNode answer) throws ReflectiveOperationException {
        ApiMessageType type = ApiMessageType.fromApiKey((short) question.get("api").asInt());
        short version = (short) question.get("version").asInt();
        ApiMessage message = type.newResponse();
        byte[] content = Base64.getDecoder().decode(question.get("response").asText());
        Readable readable = new ByteBufferAccessor(ByteBuffer.wrap(content));
        message.read(readable, version);
        answer.set("response", json(message, version));
    }

    /** A message as Kafka's own JSON, without the bytes of records. */
    private static JsonNode json(ApiMessage message, short version) throws ReflectiveOperationException {
        Class<?> converter = converter(message.getClass());
        return (JsonNode) converter.getMethod("write", message.getClass(), short.class).invoke(null, message, version);
    }

    private static Message message(Class<?> kind, JsonNode fields, short version) throws ReflectiveOperationException {
        return (Message) converter(kind).getMethod("read", JsonNode.class, short.class).invoke(null, fields, version);
    }

    private static Class<?> converter(Class<?> message) throws ClassNotFoundException {
        return Class.forName(message.getName() + "JsonConverter");
    }

    private static ByteBuffer batch(JsonNode question) throws ReflectiveOperationException {
        byte[] value = question.get("value").asText().getBytes(StandardCharsets.UTF_8);
        Class<?> kind = ofRecords("SimpleRecord");
        Object records = Array.newInstance(kind, 1);
        Array.set(records, 0, kind.getConstructor(byte[].class).newInstance((Object) value));
        Method batch = ofRecords("MemoryRecords").getMethod("withTransactionalRecords",
            Compression.class, long.class, short.class, int.class, records.getClass());
        Object made = batch.invoke(null, Compression.NONE, question.get("producerId").asLong(),
            (short) question.get("epoch").asInt(), question.get("sequence").asInt(), records);
        return (ByteBuffer) made.getClass().getMethod("buffer").invoke(made);
    }

    /** A class of record batches, whose package changed in Kafka 4.4. */
    private static Class<?> ofRecords(String name) throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.record.internal." + name);
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.record." + name);
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] content = new byte[buffer.remaining()];
        buffer.duplicate().get(content);
        return content;
    }
}
