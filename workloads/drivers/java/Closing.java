package fencepost;

import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * The hard end of a consumer: it does not leave its group. Before 4.1 (KIP-1092) only a setting, inside the client, says so;
 * `unsubscribe` leaves the group all the same.
 */
final class Closing {
    private static final String SETTING = "internal.leave.group.on.close";
    private static final String OPTIONS = "org.apache.kafka.clients.consumer.CloseOptions";

    private Closing() {}

    /** What a consumer has to be made with. */
    static Map<String, Object> settings() {
        return options() == null ? Map.of(SETTING, false) : Map.of();
    }

    static void atOnce(KafkaConsumer<?, ?> consumer) {
        Class<?> options = options();
        if (options == null) {
            consumer.close(Duration.ZERO);
        } else {
            withOptions(consumer, options);
        }
    }

    private static Class<?> options() {
        try {
            return Class.forName(OPTIONS);
        } catch (ClassNotFoundException older) {
            return null;
        }
    }

    private static void withOptions(KafkaConsumer<?, ?> consumer, Class<?> options) {
        try {
            Object remaining = options.getMethod("groupMembershipOperation", operations(options)).invoke(null, remain(options));
            Object closing = options.getMethod("withTimeout", Duration.class).invoke(remaining, Duration.ZERO);
            Method close = KafkaConsumer.class.getMethod("close", options);
            close.invoke(consumer, closing);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("KafkaConsumer.close(CloseOptions): " + error, error.getCause());
        }
    }

    private static Class<?> operations(Class<?> options) throws ClassNotFoundException {
        return Class.forName(options.getName() + "$GroupMembershipOperation");
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object remain(Class<?> options) throws ClassNotFoundException {
        return Enum.valueOf((Class<Enum>) operations(options), "REMAIN_IN_GROUP");
    }
}
