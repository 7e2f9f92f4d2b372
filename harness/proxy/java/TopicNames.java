package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Names of topics by their ids (KIP-516), as the answers have told them that passed through this process. */
final class TopicNames {
    private static final Map<String, String> NAMES = new ConcurrentHashMap<>();

    private TopicNames() {}

    /** The name; the id itself where no answer has told the name. */
    static String of(String id) {
        return NAMES.getOrDefault(id, id);
    }

    /** True if answers of this API tell names. */
    static boolean told(String api) {
        return api.equals("Metadata") || api.equals("CreateTopics") || api.equals("DescribeTopicPartitions");
    }

    static void learn(JsonNode answer) {
        if (answer == null) {
            return;
        }
        for (JsonNode topic : answer.path("topics")) {
            if (topic.path("topicId").isTextual() && topic.path("name").isTextual()) {
                NAMES.put(topic.get("topicId").asText(), topic.get("name").asText());
            }
        }
    }
}
