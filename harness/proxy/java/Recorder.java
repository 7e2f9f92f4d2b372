package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.message.FetchResponseData;

/** Which messages are recorded, and with which fields. */
final class Recorder {
    private static final int BODY = 4096;
    private static final Set<String> RECORDS = Set.of("Produce", "Fetch"); // bodies with records
    private static final Set<String> ALWAYS = Set.of("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn",
        "TxnOffsetCommit", "OffsetCommit", "OffsetFetch", "FindCoordinator", "WriteTxnMarkers", "JoinGroup", "SyncGroup",
        "LeaveGroup", "ListOffsets", "DescribeTransactions", "CreateTopics", "DeleteTopics");
    private static final Set<String> GIVES_EPOCHS = Set.of("InitProducerId", "EndTxn"); // since version 5, with KIP-890
    private static final String METADATA = "Metadata";
    private static final Set<String> BY_ANSWER = Set.of("Fetch", "Heartbeat", "ConsumerGroupHeartbeat", METADATA);
    private final RecordLines lines;

    Recorder(RecordLines lines) {
        this.lines = lines;
    }

    /** True if requests of an API, or some of them, are recorded whatever the rules are. */
    boolean records(String api) {
        return ALWAYS.contains(api) || BY_ANSWER.contains(api);
    }

    /** A request has arrived: recorded at once, or when its answer decides. */
    void arrived(Entry entry, Connection connection) {
        if (ALWAYS.contains(entry.request.api()) || !entry.hits.isEmpty()) {
            request(entry, connection);
        }
    }

    private void request(Entry entry, Connection connection) {
        entry.recorded = true;
        Message request = entry.request;
        ObjectNode line = line("request", entry.number).put("node", connection.node()).put("connection", connection.number);
        line.put("client", connection.client).put("client_id", request.clientId).put("correlation", request.correlation);
        line.put("api", request.api()).put("version", request.version).put("arrived_ns", entry.arrived);
        Facts facts = request.facts();
        line.put("transactional_id", Facts.first(facts.transactionalIds)).put("producer_id", Facts.first(facts.producerIds));
        line.put("producer_epoch", facts.producerEpoch).put("committed", facts.committed).put("group", Facts.first(facts.groups));
        line.set("partitions", facts.partitions);
        body(line, request);
        names(line, entry.hits);
        if (entry.hits.stream().anyMatch(hit -> hit.rule().keeps())) {
            line.put("kept", true);
        }
        if (entry.hits.stream().anyMatch(hit -> hit.rule().act.equals("alter"))) {
            line.put("altered", true);
        }
        lines.add(line);
    }

    /** A request goes to the broker later than it came, or once more. */
    void forwarded(Entry entry, long at, int copy) {
        if (entry.recorded) {
            ObjectNode line = line("forwarded", entry.number).put("forwarded_ns", at);
            lines.add(copy == 0 ? line : line.put("copy", copy + 1));
        }
    }

    /** An answer has come. returned: when it goes to the client; null: not yet, or never. */
    void answer(Entry entry, Message answer, Collection<Rules.Hit> hits, long answered, Long returned, Connection connection) {
        if (!entry.recorded && (!hits.isEmpty() || decides(entry.request, answer))) {
            request(entry, connection);
        }
        if (!entry.recorded) {
            return;
        }
        Facts facts = answer.facts();
        ObjectNode line = line("answer", entry.number).put("answered_ns", answered).put("returned_ns", returned);
        line.put("error", facts.error());
        if (GIVES_EPOCHS.contains(answer.api())) {
            line.put("producer_id", Facts.first(facts.producerIds)).put("producer_epoch", facts.producerEpoch);
        }
        if (answer.api().equals(METADATA)) {
            line.set("partitions", TopicNames.topics(answer.json()));
            line.putNull("body");
        } else {
            line.set("partitions", facts.partitions);
            body(line, answer);
        }
        names(line, hits);
        line.put("made_by_proxy", entry.made != null);
        lines.add(entry.copy == 0 ? line : line.put("copy", entry.copy + 1));
    }

    void returned(Entry entry, long at) {
        if (entry.recorded) {
            lines.add(line("returned", entry.number).put("returned_ns", at));
        }
    }

    void lost(Entry entry, String why) {
        if (entry.recorded && entry.copy == 0) {
            lines.add(line("lost", entry.number).put("why", why));
        }
    }

    void closed(Connection connection, String by) {
        ObjectNode line = Codec.JSON.createObjectNode().put("at", "closed").put("node", connection.node());
        lines.add(line.put("connection", connection.number).put("by", by).put("time_ns", System.nanoTime()));
    }

    /** The first message of an API and version that this release of Kafka does not know, or whose body cannot be read. */
    void unknown(Message message, Connection connection) {
        ObjectNode line = Codec.JSON.createObjectNode().put("at", "unknown").put("node", connection.node());
        line.put("connection", connection.number).put("api", message.api()).put("version", message.version);
        lines.add(line.put("answer", message.isAnswer()).put("time_ns", System.nanoTime()));
    }

    private static ObjectNode line(String at, long number) {
        return Codec.JSON.createObjectNode().put("at", at).put("n", number);
    }

    private static void names(ObjectNode line, Collection<Rules.Hit> hits) {
        ArrayNode names = line.putArray("rules");
        hits.forEach(hit -> names.add(hit.state().name));
    }

    private static void body(ObjectNode line, Message message) {
        JsonNode json = RECORDS.contains(message.api()) ? settings(message) : message.json();
        String text = json == null ? null : json.toString();
        line.putRawValue("body", text != null && text.length() <= BODY ? new RawValue(text) : null);
    }

    /** What a Produce or a Fetch says besides its partitions: acks, isolation level, session; null of an answer. */
    private static JsonNode settings(Message message) {
        if (message.isAnswer() || message.json() == null) {
            return null;
        }
        ObjectNode settings = Codec.JSON.createObjectNode();
        message.json().fields().forEachRemaining(field -> {
            if (!field.getValue().isArray()) {
                settings.set(field.getKey(), field.getValue());
            }
        });
        return settings;
    }

    /** True if an answer makes its request one that is recorded: records, errors, changes. */
    private static boolean decides(Message request, Message answer) {
        if (!BY_ANSWER.contains(request.api()) || answer.body() == null) {
            return false;
        }
        if (answer.body() instanceof FetchResponseData fetched) {
            return Batches.any(fetched) || fetched.errorCode() != 0 || fetched.responses().stream()
                .anyMatch(topic -> topic.partitions().stream().anyMatch(partition -> partition.errorCode() != 0));
        }
        if (request.api().equals(METADATA)) {
            return TopicNames.news(answer.json());
        }
        return !answer.facts().errors.isEmpty() || request.api().equals("ConsumerGroupHeartbeat") && changes(request, answer);
    }

    private static boolean changes(Message request, Message answer) {
        if (request.json() == null) {
            return false;
        }
        boolean asked = List.of("topicPartitions", "subscribedTopicNames").stream().anyMatch(request.json()::hasNonNull);
        return asked || answer.json().hasNonNull("assignment")
            || request.json().path("memberEpoch").asInt() != answer.json().path("memberEpoch").asInt();
    }
}
