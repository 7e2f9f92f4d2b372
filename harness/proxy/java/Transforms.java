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
        JsonNode before = json.deepCopy();
        rule.set.forEach((path, value) -> {
            if (Paths.set(json, path, value) == 0) {
                throw new IllegalArgumentException("set: no field " + path + " in " + message.api() + " version " + message.version);
            }
        });
        ApiMessage changed = Codec.message(message.body().getClass(), json, message.version);
        demand(!before.equals(Codec.json(changed, message.version, true)), "set: it has these values already");
        return changed;
    }

    private static ApiMessage reversed(FetchResponseData answer) {
        boolean changed = false;
        for (FetchResponseData.FetchableTopicResponse topic : answer.responses()) {
            for (FetchResponseData.PartitionData partition : topic.partitions()) {
                List<FetchResponseData.AbortedTransaction> aborted = partition.abortedTransactions();
                if (aborted != null && aborted.size() > 1) {
                    Collections.reverse(aborted);
                    changed = true;
                }
            }
        }
        demand(changed, "transform: it has no two aborted transactions of a partition");
        return answer;
    }

    private static ApiMessage lowered(ApiVersionsResponseData answer, Map<String, Integer> lower) {
        lower.forEach((name, version) -> {
            ApiVersionsResponseData.ApiVersion range = answer.apiKeys().find(Codec.named(name).apiKey());
            demand(range != null && range.maxVersion() > version && range.minVersion() <= version,
                "lower: the broker takes " + (range == null ? "no " + name : name + " of versions " + range.minVersion() + " to " + range.maxVersion()));
            range.setMaxVersion((short) (int) version);
        });
        return answer;
    }

    /** What changes nothing is no alteration. */
    private static void demand(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalArgumentException(otherwise);
        }
    }
}
