package fencepost.proxy;

import java.util.Arrays;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.common.message.ApiMessageType;

/** What messages can be held for, beside events of their own: `next:API`, a request, and `answered:API`, an answer to one. */
final class Occurrences {
    static final String NEXT = "next:";
    static final String ANSWERED = "answered:";
    static final String IDS = "ids"; // what `IdStates` knows: nothing is held for it, but other proxies are told of it
    static final String RULE = "must be event:NAME, next:API or answered:API with Kafka's name of an API, or closed";
    private static final Set<String> WITH_TRANSACTIONS = Set.of("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn",
        "EndTxn", "TxnOffsetCommit", "FindCoordinator", "DescribeTransactions");

    private Occurrences() {}

    /** True for `next:API` and `answered:API` with an API that Kafka has. */
    static boolean valid(String text) {
        return Stream.of(NEXT, ANSWERED).anyMatch(kind -> text.startsWith(kind) && Arrays.stream(ApiMessageType.values())
            .anyMatch(type -> type.name.equals(text.substring(kind.length()))));
    }

    /** The transactional ids for which a request of this API occurs; null: it occurs for all. */
    static Set<String> ids(Message request) {
        return WITH_TRANSACTIONS.contains(request.api()) ? request.facts().transactionalIds : null;
    }
}
