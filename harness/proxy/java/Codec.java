package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/** Kafka's messages by the kafka-clients on the class path: bytes, objects, Kafka's own JSON. */
final class Codec {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final ApiMessageType[] BY_KEY = new ApiMessageType[1024];
    private static final short[] HIGHEST = new short[1024]; // the newest version that is known, by API key
    private static final Map<Class<?>, Method> WRITERS = new ConcurrentHashMap<>();

    static {
        for (ApiMessageType type : ApiMessageType.values()) {
            BY_KEY[type.apiKey()] = type;
            HIGHEST[type.apiKey()] = highest(type);
        }
    }

    private Codec() {}

    /** The type of an API key; null when this release of Kafka has none. */
    static ApiMessageType type(short key) {
        return key >= 0 && key < BY_KEY.length ? BY_KEY[key] : null;
    }

    /** The type with Kafka's name, in any case; null when there is none. */
    static ApiMessageType named(String name) {
        for (ApiMessageType type : ApiMessageType.values()) {
            if (type.name.equalsIgnoreCase(name)) {
                return type;
            }
        }
        return null;
    }

    static boolean knows(ApiMessageType type, short version) {
        return type != null && version >= type.lowestSupportedVersion() && version <= HIGHEST[type.apiKey()];
    }

    /** The newest version that is known, unstable ones included. */
    static short newest(ApiMessageType type) {
        return HIGHEST[type.apiKey()];
    }

    /** The same by the method of the release, which has no argument in those before 3.5. */
    private static short highest(ApiMessageType type) {
        for (Method method : ApiMessageType.class.getMethods()) {
            if (method.getName().equals("highestSupportedVersion")) {
                return (short) (method.getParameterCount() == 1 ? invoke(type, method, true) : invoke(type, method));
            }
        }
        throw new IllegalStateException("this release does not tell its versions");
    }

    /** A body, read to its end. Throws RuntimeException when it cannot be. */
    static ApiMessage read(ApiMessage empty, short version, ByteBuffer frame, int from) {
        ByteBuffer buffer = frame.duplicate().position(from).slice();
        Readable readable = new ByteBufferAccessor(buffer);
        empty.read(readable, version);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(buffer.remaining() + " bytes follow it");
        }
        return empty;
    }

    /** A message behind the first `header` bytes of a frame, as a frame with its size before it. */
    static ByteBuffer frame(ByteBuffer old, int header, Message message, short version) {
        ObjectSerializationCache sizes = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(header + message.size(sizes, version));
        buffer.put(old.duplicate().limit(header));
        message.write(new ByteBufferAccessor(buffer), sizes, version);
        return buffer.putInt(0, buffer.capacity() - 4).flip();
    }

    /** A message in Kafka's JSON of it; records: with the bytes of records, else with their size. */
    static JsonNode json(ApiMessage message, short version, boolean records) {
        Method writer = WRITERS.computeIfAbsent(message.getClass(),
            kind -> method(kind, "write", kind, short.class, boolean.class));
        return (JsonNode) call(writer, message, version, records);
    }

    static ApiMessage message(Class<?> kind, JsonNode fields, short version) {
        return (ApiMessage) call(method(kind, "read", JsonNode.class, short.class), fields, version);
    }

    private static Method method(Class<?> kind, String name, Class<?>... parameters) {
        try {
            return Class.forName(kind.getName() + "JsonConverter").getMethod(name, parameters);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Calls a static method; throws what it throws. */
    static Object call(Method method, Object... arguments) {
        return invoke(null, method, arguments);
    }

    private static Object invoke(Object target, Method method, Object... arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
