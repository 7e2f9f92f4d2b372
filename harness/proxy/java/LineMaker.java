package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/** Makes lines of messages, and tells of the messages of which they are made. */
final class LineMaker {
    private static final int BODY = 4096;
    private static final Set<String> RECORDS = Set.of("Produce", "Fetch"); // bodies with records
    private static final Set<String> GIVES_EPOCHS = Set.of("InitProducerId", "EndTxn"); // since version 5, with KIP-890
    private final Counts counts;
    private final IdStates ids;

    LineMaker(Counts counts, IdStates ids) {
        this.counts = counts;
        this.ids = ids;
    }

    /** Takes JSON objects. */
    interface Lines {
        void add(byte[] object) throws IOException;
    }

    /** Makes the lines of an event. Throws what `lines` throws. */
    void make(Event event, Lines lines) throws IOException {
        if (event instanceof Event.Line line) {
            lines.add(line.object());
        } else if (event instanceof Event.Request request) {
            unread(request.message(), request.origin(), request.arrived(), lines);
            lines.add(bytes(request(request.number(), request.origin(), request.message(), request.arrived(), List.of())));
        } else if (event instanceof Event.Answer answer) {
            ids.answered(answer.message(), answer.answered());
            unread(answer.message(), answer.origin(), answer.answered(), lines);
            lines.add(bytes(answer(answer.number(), answer.message(), List.of(), answer.answered(), answer.returned())));
        }
    }

    private void unread(Message message, Origin origin, long when, Lines lines) throws IOException {
        if (message.body() == null && counts.unknown(message)) {
            lines.add(bytes(unknown(message, origin, when)));
        }
    }

    static byte[] bytes(ObjectNode line) {
        try {
            return Codec.JSON.writeValueAsBytes(line);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static ObjectNode request(long number, Origin origin, Message request, long arrived, Collection<Rules.Hit> hits) {
        ObjectNode line = line("request", number).put("node", origin.node()).put("connection", origin.connection());
        line.put("client", origin.client()).put("client_id", request.clientId).put("correlation", request.correlation);
        line.put("api", request.api()).put("version", request.version).put("arrived_ns", arrived);
        Facts facts = request.facts();
        line.put("transactional_id", Facts.first(facts.transactionalIds)).put("producer_id", Facts.first(facts.producerIds));
        line.put("producer_epoch", facts.producerEpoch).put("committed", facts.committed).put("group", Facts.first(facts.groups));
        line.set("partitions", facts.partitions);
        body(line, request);
        names(line, hits);
        if (hits.stream().anyMatch(hit -> hit.rule().keeps())) {
            line.put("kept", true);
        }
        if (hits.stream().anyMatch(hit -> hit.rule().act.equals("alter"))) {
            line.put("altered", true);
        }
        return line;
    }

    /** returned: when it goes to the client; null: not yet, or never. */
    static ObjectNode answer(long number, Message answer, Collection<Rules.Hit> hits, long answered, Long returned) {
        Facts facts = answer.facts();
        ObjectNode line = line("answer", number).put("answered_ns", answered).put("returned_ns", returned);
        line.put("error", facts.error());
        if (GIVES_EPOCHS.contains(answer.api())) {
            line.put("producer_id", Facts.first(facts.producerIds)).put("producer_epoch", facts.producerEpoch);
        }
        if (answer.api().equals("Metadata")) {
            line.set("partitions", TopicNames.topics(answer.json()));
            line.putNull("body");
        } else {
            line.set("partitions", facts.partitions);
            body(line, answer);
        }
        names(line, hits);
        return line.put("made_by_proxy", false);
    }

    /** The first message of an API and version that this release of Kafka does not know, or whose body cannot be read. */
    static ObjectNode unknown(Message message, Origin origin, long when) {
        ObjectNode line = Codec.JSON.createObjectNode().put("at", "unknown").put("node", origin.node());
        line.put("connection", origin.connection()).put("api", message.api()).put("version", message.version);
        return line.put("answer", message.isAnswer()).put("time_ns", when);
    }

    static ObjectNode line(String at, long number) {
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
}
