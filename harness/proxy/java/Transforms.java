package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.ApiMessage;

/** What the act `alter` does to a message. */
final class Transforms {
    static final Map<String, String> API = Map.of("reverse-aborted", "Fetch", "lower-api-versions", "ApiVersions");

    private Transforms() {}

    /** Alters a message. Throws RuntimeException when it cannot be: a path leads nowhere, a value does not fit. */
    static void apply(Rule rule, Message message) {
        if (message.body() == null) {
            throw new IllegalArgumentException("its body cannot be read");
        }
        if (rule.transform == null) {
            message.replace(altered(rule, message));
        } else if (message.body() instanceof FetchResponseData answer) {
            message.replace(reversed(answer));
        } else if (message.body() instanceof ApiVersionsResponseData answer) {
            message.replace(lowered(answer, rule.lower));
        }
    }

    private static ApiMessage altered(Rule rule, Message message) {
        JsonNode json = Codec.json(message.body(), message.version, true);
        rule.set.forEach((path, value) -> {
            if (Paths.set(json, path, value) == 0) {
                throw new IllegalArgumentException("set: no field " + path + " in " + message.api() + " version " + message.version);
            }
        });
        return Codec.message(message.body().getClass(), json, message.version);
    }

    private static ApiMessage reversed(FetchResponseData answer) {
        answer.responses().forEach(topic -> topic.partitions().forEach(partition -> {
            List<FetchResponseData.AbortedTransaction> aborted = partition.abortedTransactions();
            if (aborted != null) {
                Collections.reverse(aborted);
            }
        }));
        return answer;
    }

    private static ApiMessage lowered(ApiVersionsResponseData answer, Map<String, Integer> lower) {
        lower.forEach((name, version) -> {
            ApiMessageType type = Codec.named(name);
            ApiVersionsResponseData.ApiVersion range = type == null ? null : answer.apiKeys().find(type.apiKey());
            if (range != null && range.maxVersion() > version) {
                range.setMaxVersion((short) Math.max(version, range.minVersion()));
            }
        });
        return answer;
    }
}
