package fencepost.proxy;

import java.util.Set;
import org.apache.kafka.common.message.FetchRequestData;

/** What shows that a request comes from a broker. */
final class Brokers {
    static final Set<String> THEIRS = Set.of("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown",
        "WriteTxnMarkers", "AlterPartition", "AllocateProducerIds", "BrokerRegistration", "BrokerHeartbeat", "Vote",
        "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "AssignReplicasToDirs", "InitializeShareGroupState",
        "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary");

    private Brokers() {}

    /** True or false where a request shows it; null where it does not. */
    static Boolean sent(Message request) {
        String api = request.api();
        if (THEIRS.contains(api) || api.equals("AddPartitionsToTxn") && verifies(request)) {
            return true;
        }
        if (api.equals("Fetch") && request.body() instanceof FetchRequestData fetch) {
            int replica = request.version < 15 ? fetch.replicaId() : fetch.replicaState().replicaId();
            return replica >= 0;
        }
        return null;
    }

    /** A leader asks about transactions of its clients (KIP-890), from version 4 on, which some clients send too. */
    private static boolean verifies(Message request) {
        return request.version >= 4 && request.clientId != null && request.clientId.startsWith("AddPartitionsManager");
    }
}
