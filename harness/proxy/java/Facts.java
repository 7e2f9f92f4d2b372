package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.protocol.Errors;

/**
 * What a message says of transactions, groups, producers and partitions, collected from Kafka's JSON by the names of its fields,
 * which are the same in all messages and versions.
 */
final class Facts {
    static final Set<String> PARTITIONS =
        Set.of("partitions", "partitionData", "partitionIndexes", "partitionResponses", "resultsByPartition");
    private static final String ERROR = "errorCode"; // the end of the name of every field with one
    private static final List<String> TOPIC = List.of("name", "topic", "topicName");
    private static final List<String> NUMBER = List.of("partitionIndex", "index", "partition");
    final Set<String> transactionalIds = new LinkedHashSet<>();
    final Set<String> groups = new LinkedHashSet<>();
    final Set<Long> producerIds = new LinkedHashSet<>();
    final Set<String> errors = new LinkedHashSet<>(); // those that are not NONE
    final ArrayNode partitions = Codec.JSON.createArrayNode();
    Integer producerEpoch;
    Boolean committed;
    boolean hasErrors; // its schema has a field for errors

    Facts(Message message) {
        JsonNode json = message.json();
        if (json == null) {
            return;
        }
        walk(json, null);
        if (message.api().equals("FindCoordinator") && !message.isAnswer()) {
            keys(json);
        }
        if (message.api().equals("OffsetFetch") && json.path("groups").size() > 1) {
            ofGroups(json.get("groups"));
        }
        List<ArrayNode> batches = batches(message);
        for (int i = 0; i < batches.size() && i < partitions.size(); i++) {
            add(batches.get(i), (ObjectNode) partitions.get(i));
        }
    }

    /** The batches of each partition; empty where their heads cannot be read. */
    private static List<ArrayNode> batches(Message message) {
        try {
            return Batches.of(message.body());
        } catch (RuntimeException error) {
            return List.of();
        }
    }

    private void add(ArrayNode batches, ObjectNode partition) {
        partition.set("batches", batches);
        for (JsonNode batch : batches) {
            if (batch.get("producer_id").asLong() >= 0) {
                producerIds.add(batch.get("producer_id").asLong());
                producerEpoch = producerEpoch == null ? batch.get("epoch").asInt() : producerEpoch;
            }
        }
    }

    /** The first error that is not NONE, NONE when there is none, null when the message has no field for one. */
    String error() {
        return errors.isEmpty() ? (hasErrors ? "NONE" : null) : errors.iterator().next();
    }

    static <T> T first(Set<T> values) {
        return values.isEmpty() ? null : values.iterator().next();
    }

    private void walk(JsonNode node, JsonNode marker) {
        if (node.isArray()) {
            node.forEach(child -> walk(child, marker));
        }
        for (Iterator<Map.Entry<String, JsonNode>> fields = node.fields(); fields.hasNext();) {
            Map.Entry<String, JsonNode> field = fields.next();
            JsonNode value = field.getValue();
            take(field.getKey(), value);
            if (PARTITIONS.contains(field.getKey()) && value.isArray()) {
                String topic = topic(node);
                String id = TopicNames.id(node);
                value.forEach(child -> partition(topic, id, child, marker));
            } else if (value.isArray()) {
                value.forEach(child -> walk(child, field.getKey().equals("markers") ? child : marker));
            } else if (value.isObject()) {
                walk(value, marker);
            }
        }
    }

    private void take(String name, JsonNode value) {
        switch (name) {
            case "transactionalId", "v3AndBelowTransactionalId", "transactionalIds" -> texts(value, transactionalIds);
            case "groupId", "groups", "groupsNames", "groupIds" -> texts(value, groups);
            case "producerId", "v3AndBelowProducerId" -> {
                if (value.asLong() >= 0) {
                    producerIds.add(value.asLong());
                }
            }
            case "producerEpoch", "v3AndBelowProducerEpoch" -> producerEpoch = producerEpoch == null ? value.asInt() : producerEpoch;
            case "committed", "transactionResult" -> committed = value.asBoolean();
            default -> error(name, value);
        }
    }

    private String error(String name, JsonNode value) {
        int at = name.length() - ERROR.length();
        if (at < 0 || !name.regionMatches(true, at, ERROR, 0, ERROR.length()) || !value.isNumber()) {
            return null;
        }
        hasErrors = true;
        Errors error = Errors.forCode((short) value.asInt());
        if (error != Errors.NONE) {
            errors.add(error.name());
        }
        return error.name();
    }

    private static void texts(JsonNode value, Set<String> into) {
        if (value.isTextual()) {
            into.add(value.asText());
        }
        for (JsonNode child : value) {
            if (child.isTextual()) {
                into.add(child.asText());
            }
        }
    }

    private void keys(JsonNode json) {
        Set<String> into = json.path("keyType").asInt(0) == 1 ? transactionalIds : groups;
        texts(json.path("key"), into);
        texts(json.path("coordinatorKeys"), into);
    }

    /** Whose partition each is, where a message is about several groups: they come in the order of the groups. */
    private void ofGroups(JsonNode groups) {
        Iterator<JsonNode> lines = partitions.iterator();
        for (JsonNode group : groups) {
            for (JsonNode topic : group.path("topics")) {
                int count = topic.path("partitions").size() + topic.path("partitionIndexes").size();
                for (int i = 0; i < count && lines.hasNext(); i++) {
                    ((ObjectNode) lines.next()).set("group", group.get("groupId"));
                }
            }
        }
    }

    private static String topic(JsonNode node) {
        for (String name : TOPIC) {
            if (node.path(name).isTextual()) {
                return node.get(name).asText();
            }
        }
        return node.has("topicId") ? TopicNames.of(node.get("topicId").asText()) : null;
    }

    private void partition(String topic, String id, JsonNode node, JsonNode marker) {
        if (topic == null) {
            walk(node, marker);
            return;
        }
        ObjectNode line = partitions.addObject().put("topic", topic);
        if (id != null) {
            line.put("topic_id", id);
        }
        if (node.isNumber()) {
            line.put("partition", node.asInt());
        }
        NUMBER.stream().filter(node::has).findFirst().ifPresent(name -> line.put("partition", node.get(name).asInt()));
        for (Iterator<Map.Entry<String, JsonNode>> fields = node.fields(); fields.hasNext();) {
            Map.Entry<String, JsonNode> field = fields.next();
            detail(line, field.getKey(), field.getValue());
        }
        if (marker != null && marker.has("producerId")) {
            line.set("producer_id", marker.get("producerId"));
            line.set("producer_epoch", marker.get("producerEpoch"));
            line.set("committed", marker.get("transactionResult"));
            line.set("marker_epoch", marker.get("coordinatorEpoch"));
        }
    }

    private void detail(ObjectNode line, String name, JsonNode value) {
        switch (name) {
            case "baseOffset" -> line.set("base_offset", value);
            case "committedOffset", "offset", "fetchOffset" -> line.set("offset", value);
            case "lastStableOffset" -> line.set("last_stable_offset", value);
            case "highWatermark" -> line.set("high_watermark", value);
            case "logStartOffset" -> line.set("log_start", value);
            case "abortedTransactions" -> {
                ArrayNode aborted = line.putArray("aborted");
                value.forEach(one -> aborted.addArray().add(one.get("producerId")).add(one.get("firstOffset")));
            }
            default -> {
                String error = error(name, value);
                if (error != null) {
                    line.put("error", error);
                }
            }
        }
    }
}
