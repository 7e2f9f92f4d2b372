package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * The states of transactional ids, by the answers to InitProducerId and EndTxn that this proxy, or another one, has seen. An id belongs to one
 * producer after the other; each such time is a `Reign`.
 */
final class IdStates {
    static final String FRESH = "fresh"; // no transaction of this producer has ended
    static final String COMMITTED = "committed"; // the last one was
    static final String ABORTED = "aborted";
    static final String FENCED = "fenced"; // another producer has taken the id over
    static final Set<String> WORDS = Set.of(FRESH, COMMITTED, ABORTED, FENCED);
    private static final Set<String> WITHOUT_PRODUCER = Set.of("FindCoordinator", "InitProducerId");
    private static final int IDS = 20_000; // the oldest are forgotten first
    private static final int REIGNS = 8; // of an id
    private final Map<String, List<Reign>> ids = new LinkedHashMap<>();
    private final Map<Long, String> names = new LinkedHashMap<>(); // producer id -> transactional id
    private final Watches watches;

    IdStates(Watches watches) {
        this.watches = watches;
    }

    /** The time in which an id belongs to one producer. epoch: the first one. */
    private static final class Reign {
        final String owner; // its client.id
        final long producer;
        final int epoch;
        final long began;
        String last; // how its last transaction ended; null: none has
        String before; // how the one before that ended
        long ended; // when the last one did

        Reign(JsonNode line) {
            owner = line.path("client_id").asText("");
            producer = line.path("producer_id").asLong();
            epoch = line.path("producer_epoch").asInt();
            began = line.path("time_ns").asLong();
        }

        boolean has(long id, int at) {
            return producer == id && epoch <= at;
        }
    }

    /** True if answers of an API tell of states. */
    static boolean told(String api) {
        return api.equals("InitProducerId") || api.equals("EndTxn");
    }

    /** An answer has come from the broker. */
    void answered(Message answer, long when) {
        boolean begins = answer.api().equals("InitProducerId");
        if (!told(answer.api()) || !"NONE".equals(answer.facts().error())) {
            return;
        }
        Facts asked = answer.request.facts();
        Facts named = begins ? answer.facts() : asked;
        String id = Facts.first(asked.transactionalIds);
        Long producer = Facts.first(named.producerIds);
        if (id == null || producer == null || named.producerEpoch == null) {
            return;
        }
        ObjectNode line = line(id, producer, named.producerEpoch, when).put("client_id", answer.request.clientId);
        line.put("committed", begins ? null : asked.committed);
        told(line);
        watches.told(line);
    }

    private static ObjectNode line(String id, long producer, int epoch, long when) {
        return Codec.JSON.createObjectNode().put("until", Occurrences.IDS).put("transactional_id", id).put("producer_id", producer)
            .put("producer_epoch", epoch).put("time_ns", when);
    }

    /** A producer has an id, or a transaction of it has ended, as this proxy or another one has seen it. */
    synchronized void told(JsonNode line) {
        String id = line.path("transactional_id").asText();
        List<Reign> reigns = ids.computeIfAbsent(id, key -> new ArrayList<>());
        long producer = line.path("producer_id").asLong();
        int epoch = line.path("producer_epoch").asInt();
        if (line.hasNonNull("committed")) {
            Reign reign = of(reigns, producer, epoch);
            if (reign != null) {
                end(reign, line.get("committed").asBoolean() ? COMMITTED : ABORTED, line.path("time_ns").asLong());
            }
        } else if (reigns.stream().noneMatch(one -> one.producer == producer && one.epoch == epoch)) {
            reigns.add(new Reign(line));
            reigns.sort(Comparator.comparingLong(one -> one.began)); // what another proxy has seen may come late
            names.put(producer, id);
            forget(reigns);
        }
    }

    private static void end(Reign reign, String how, long when) {
        if (when > reign.ended) {
            reign.before = reign.last;
            reign.last = how;
            reign.ended = when;
        }
    }

    private void forget(List<Reign> reigns) {
        if (reigns.size() > REIGNS) {
            reigns.remove(0);
        }
        if (ids.size() > IDS) {
            ids.remove(ids.keySet().iterator().next());
        }
        if (names.size() > IDS) {
            names.remove(names.keySet().iterator().next());
        }
    }

    /** Tells all that is known, as if it occurred now: for a proxy that has not seen it. */
    synchronized void tell(Consumer<ObjectNode> other) {
        ids.forEach((id, reigns) -> reigns.forEach(reign -> {
            other.accept(line(id, reign.producer, reign.epoch, reign.began).put("client_id", reign.owner).putNull("committed"));
            if (reign.last != null) {
                other.accept(line(id, reign.producer, reign.epoch, reign.ended).put("committed", reign.last.equals(COMMITTED)));
            }
        }));
    }

    /** The state of the id of a request when it arrives; null: not known. Of WriteTxnMarkers: before the transaction that they are about. */
    synchronized String of(Message request) {
        Facts facts = request.facts();
        Long producer = Facts.first(facts.producerIds);
        String id = facts.transactionalIds.isEmpty() ? names.get(producer) : Facts.first(facts.transactionalIds);
        List<Reign> reigns = id == null ? null : ids.get(id);
        if (WITHOUT_PRODUCER.contains(request.api())) {
            return id == null ? null : ofClient(reigns == null ? List.of() : reigns, request.clientId);
        }
        if (reigns == null || producer == null) {
            return null;
        }
        Integer epoch = request.api().equals("WriteTxnMarkers") ? epoch(facts) : facts.producerEpoch;
        Reign reign = epoch == null ? null : of(reigns, producer, epoch);
        if (reign == null) {
            return null;
        }
        String last = request.api().equals("WriteTxnMarkers") ? reign.before : reign.last;
        return reign != reigns.get(reigns.size() - 1) ? FENCED : last == null ? FRESH : last;
    }

    private static Integer epoch(Facts facts) {
        JsonNode first = facts.partitions.path(0).path("producer_epoch");
        return first.isNumber() ? Integer.valueOf(first.asInt()) : facts.producerEpoch;
    }

    private static String ofClient(List<Reign> reigns, String client) {
        if (reigns.isEmpty()) {
            return FRESH;
        }
        if (!reigns.get(reigns.size() - 1).owner.equals(client)) {
            return FENCED;
        }
        return reigns.stream().filter(reign -> reign.last != null).max(Comparator.comparingLong(reign -> reign.ended))
            .map(reign -> reign.last).orElse(FRESH);
    }

    /** The last reign to which a producer id and an epoch can belong. */
    private static Reign of(List<Reign> reigns, long producer, int epoch) {
        Reign found = null;
        for (Reign reign : reigns) {
            found = reign.has(producer, epoch) ? reign : found;
        }
        return found;
    }
}
