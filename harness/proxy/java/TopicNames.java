package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Names of topics by their ids (KIP-516), as the answers have told them that passed through this process. */
final class TopicNames {
    private static final String NONE = "AAAAAAAAAAAAAAAAAAAAAA"; // Kafka's id of no topic
    private static final long FRESH_NS = 1_000_000_000;
    private static final Map<String, String> NAMES = new ConcurrentHashMap<>();
    private static final Map<String, Long> RECORDED = new ConcurrentHashMap<>(); // when the record has said an id of a topic

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

    /** The id that a node of a message has for a topic; null when it has none. */
    static String id(JsonNode node) {
        JsonNode id = node.path("topicId");
        return id.isTextual() && !id.asText().equals(NONE) ? id.asText() : null;
    }

    /** True if a Metadata answer has the id of a topic that the record has not said for a second, or never. */
    static boolean news(JsonNode answer) {
        boolean news = false;
        long now = System.nanoTime();
        for (JsonNode topic : answer == null ? NullNode.instance : answer.path("topics")) {
            String id = id(topic);
            Long last = id == null ? Long.valueOf(now) : RECORDED.get(id);
            if (last == null || now - last > FRESH_NS) {
                RECORDED.put(id, now);
                news = true;
            }
        }
        return news;
    }

    /** The topics of a Metadata answer with their ids, without their partitions. */
    static ArrayNode topics(JsonNode answer) {
        ArrayNode topics = Codec.JSON.createArrayNode();
        for (JsonNode topic : answer == null ? NullNode.instance : answer.path("topics")) {
            if (topic.path("name").isTextual() && id(topic) != null) {
                ObjectNode line = topics.addObject().put("topic", topic.get("name").asText());
                line.put("topic_id", id(topic));
            }
        }
        return topics;
    }
}
