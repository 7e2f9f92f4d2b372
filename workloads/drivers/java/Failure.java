package fencepost;

import com.google.gson.JsonObject;
import java.util.Set;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownServerException;
import org.apache.kafka.common.protocol.Errors;

/**
 * What the client raised, as an error of the protocol: its own words, and what may be done after it.
 *
 * Sources: KafkaProducer's javadoc (the class, `send`, `commitTransaction`, `abortTransaction`), the bases of exceptions that
 * KIP-1050 added in 4.x, KafkaConsumer's javadoc.
 */
final class Failure {
    /** After these the client has to be closed. A base covers its subclasses; releases that lack one of them never raise it. */
    private static final Set<String> FATAL = Set.of(
            "ProducerFencedException",
            "OutOfOrderSequenceException",
            "UnsupportedVersionException",
            "AuthorizationException",
            "AuthenticationException",
            "FencedInstanceIdException",
            "ApplicationRecoverableException",
            "InvalidConfigurationException");
    /** Their TimeoutException says that the answer is not there yet: the same call again goes on waiting for it. */
    private static final Set<String> CONTINUED = Set.of("open", "initialise", "flush", "send_offsets", "commit", "abort", "leave");
    private static final Set<String> OF_CONSUMER = Set.of("assign", "subscribe", "seek", "position", "committed", "group", "poll");
    private static final Set<String> OF_TRANSACTION = Set.of("send", "deliver", "flush", "send_offsets", "commit");

    private Failure() {}

    /** The error of a call; `transactional`: the producer has a transactional id. */
    static JsonObject of(String call, Throwable thrown, boolean transactional) {
        boolean retriable = retriable(call, thrown);
        boolean fatal = !retriable && fatal(call, thrown);
        boolean abortable = transactional && OF_TRANSACTION.contains(call) && thrown instanceof KafkaException;
        JsonObject error = named(thrown.getClass().getSimpleName(), code(thrown), text(thrown));
        error.addProperty("fatal", fatal);
        error.addProperty("retriable", retriable);
        error.addProperty("abortable", abortable && !fatal && !retriable);
        return error;
    }

    /** An error without flags. */
    static JsonObject named(String name, int code, String text) {
        JsonObject error = new JsonObject();
        error.addProperty("name", name);
        error.addProperty("code", code);
        error.addProperty("text", text);
        return error;
    }

    private static boolean retriable(String call, Throwable thrown) {
        if (OF_CONSUMER.contains(call)) {
            return thrown instanceof RetriableException;
        }
        return CONTINUED.contains(call) && (thrown instanceof TimeoutException || thrown instanceof InterruptException);
    }

    /** An abort raises a KafkaException only for an earlier fatal error, or for an unexpected one: nothing but closing is left. */
    private static boolean fatal(String call, Throwable thrown) {
        return isFatal(thrown) || isFatal(wrapped(thrown)) || call.equals("abort") && thrown instanceof KafkaException;
    }

    private static boolean isFatal(Throwable thrown) {
        for (Class<?> type = thrown == null ? null : thrown.getClass(); type != null; type = type.getSuperclass()) {
            if (FATAL.contains(type.getSimpleName())) {
                return true;
            }
        }
        return thrown instanceof LinkageError;
    }

    /** A producer that has failed raises the same error again, wrapped in a plain KafkaException (javadoc of `send`). */
    private static Throwable wrapped(Throwable thrown) {
        return thrown.getClass() == KafkaException.class ? thrown.getCause() : null;
    }

    private static int code(Throwable thrown) {
        int code = Errors.forException(thrown).code();
        return code == Errors.UNKNOWN_SERVER_ERROR.code() && !(thrown instanceof UnknownServerException) ? 0 : code;
    }

    private static String text(Throwable thrown) {
        String text = thrown.getMessage() == null ? "" : thrown.getMessage();
        return thrown.getCause() == null ? text : text + " (caused by " + thrown.getCause() + ")";
    }
}
