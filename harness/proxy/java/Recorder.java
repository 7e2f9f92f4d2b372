package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.message.FetchResponseData;

/** Which messages are recorded. */
final class Recorder {
    private static final int SMALL = 4096; // bytes of a frame that is recorded as it is
    private static final Set<String> ALWAYS = Set.of("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn",
        "TxnOffsetCommit", "OffsetCommit", "OffsetFetch", "FindCoordinator", "WriteTxnMarkers", "JoinGroup", "SyncGroup",
        "LeaveGroup", "ListOffsets", "DescribeTransactions", "CreateTopics", "DeleteTopics");
    private static final String METADATA = "Metadata";
    private static final Set<String> BY_ANSWER = Set.of("Fetch", "Heartbeat", "ConsumerGroupHeartbeat", METADATA);
    private final Journal journal;
    private final Rules rules;
    private final Watches watches;

    Recorder(Journal journal, Rules rules, Watches watches) {
        this.journal = journal;
        this.rules = rules;
        this.watches = watches;
    }

    /** True if requests of an API, or some of them, are recorded whatever the rules are. */
    boolean records(String api) {
        return ALWAYS.contains(api) || BY_ANSWER.contains(api);
    }

    /** True if a request is recorded as it is: only then nobody reads its body before it goes on. */
    boolean asItIs(Message request, long size) {
        return ALWAYS.contains(request.api()) && !TopicNames.told(request.api()) && size <= SMALL && request.bodyAt >= 0 && unwatched(request.api());
    }

    /** True if the answer to a request is recorded as it is. */
    boolean asItIs(Entry entry, Message answer) {
        boolean whole = entry.request.frame != null || !IdStates.told(answer.api()); // what states of ids are made of
        return whole && entry.recorded && ALWAYS.contains(answer.api()) && !TopicNames.told(answer.api()) && entry.hits.isEmpty() && entry.copy == 0
            && answer.frame.limit() <= SMALL && answer.bodyAt >= 0 && unwatched(answer.api());
    }

    /** True if neither a rule nor another proxy waits for what messages of an API say. */
    private boolean unwatched(String api) {
        return !rules.may(api) && !watches.any();
    }

    /** A request has arrived: recorded at once, or when its answer decides. */
    void arrived(Entry entry, Connection connection) {
        if (entry.asItIs) {
            entry.recorded = true;
            journal.add(new Event.Request(entry.number, connection.origin, entry.arrived, entry.request.copy(entry.request.frame)));
        } else if (ALWAYS.contains(entry.request.api()) || !entry.hits.isEmpty()) {
            request(entry, connection);
        }
    }

    private void request(Entry entry, Connection connection) {
        entry.recorded = true;
        journal.add(LineMaker.request(entry.number, connection.origin, entry.request, entry.arrived, entry.hits));
    }

    /** A request goes to the broker later than it came, or once more. */
    void forwarded(Entry entry, long at, int copy) {
        if (entry.recorded) {
            ObjectNode line = LineMaker.line("forwarded", entry.number).put("forwarded_ns", at);
            journal.add(copy == 0 ? line : line.put("copy", copy + 1));
        }
    }

    /** An answer has come. returned: when it goes to the client; null: not yet, or never. */
    void answer(Entry entry, Message answer, Collection<Rules.Hit> hits, long answered, Long returned, Connection connection) {
        if (!entry.recorded && (!hits.isEmpty() || decides(entry.request, answer))) {
            request(entry, connection);
        }
        if (entry.recorded) {
            ObjectNode line = LineMaker.answer(entry.number, answer, hits, answered, returned).put("made_by_proxy", entry.made != null);
            journal.add(entry.copy == 0 ? line : line.put("copy", entry.copy + 1));
        }
    }

    /** An answer has come that is recorded as it is. */
    void answer(Entry entry, Message answer, long answered, Long returned, Connection connection) {
        journal.add(new Event.Answer(entry.number, connection.origin, answered, returned, answer.copy(answer.frame)));
    }

    void returned(Entry entry, long at) {
        if (entry.recorded) {
            journal.add(LineMaker.line("returned", entry.number).put("returned_ns", at));
        }
    }

    void lost(Entry entry, String why) {
        if (entry.recorded && entry.copy == 0) {
            journal.add(LineMaker.line("lost", entry.number).put("why", why));
        }
    }

    void closed(Connection connection, String by) {
        ObjectNode line = Codec.JSON.createObjectNode().put("at", "closed").put("node", connection.node());
        journal.add(line.put("connection", connection.number).put("by", by).put("time_ns", System.nanoTime()));
    }

    /** The first message of an API and version that this release of Kafka does not know, or whose body cannot be read. */
    void unknown(Message message, Connection connection) {
        journal.add(LineMaker.unknown(message, connection.origin, System.nanoTime()));
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
