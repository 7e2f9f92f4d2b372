package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.protocol.ApiMessage;

/** Heads of record batches. Their classes are found by name: the package changed in Kafka 4.4. */
final class Batches {
    private static final Map<String, Method> METHODS = new ConcurrentHashMap<>();
    private static final Class<?> BATCH = ofRecords("RecordBatch");
    private static final Class<?> RECORDS = ofRecords("AbstractRecords");
    private static final Class<?> RECORD = ofRecords("Record");
    private static final Class<?> CONTROL = ofRecords("ControlRecordType");

    private Batches() {}

    /** The batches of each partition of a Produce request or a Fetch answer, in their order; empty for other messages. */
    static List<ArrayNode> of(ApiMessage message) {
        List<ArrayNode> batches = new ArrayList<>();
        for (Object partition : partitions(message)) {
            batches.add(heads(records(partition)));
        }
        return batches;
    }

    /** True if a Fetch answer has records in any partition. */
    static boolean any(FetchResponseData answer) {
        return partitions(answer).stream().anyMatch(partition -> {
            Object records = records(partition);
            return records != null && (int) invoke(method(records.getClass(), "sizeInBytes"), records) > 0;
        });
    }

    private static List<Object> partitions(ApiMessage message) {
        List<Object> partitions = new ArrayList<>();
        if (message instanceof ProduceRequestData request) {
            request.topicData().forEach(topic -> partitions.addAll(topic.partitionData()));
        } else if (message instanceof FetchResponseData answer) {
            answer.responses().forEach(topic -> partitions.addAll(topic.partitions()));
        }
        return partitions;
    }

    private static Object records(Object partition) {
        return invoke(method(partition.getClass(), "records"), partition);
    }

    private static ArrayNode heads(Object records) {
        ArrayNode heads = Codec.JSON.createArrayNode();
        if (records != null && RECORDS.isInstance(records)) {
            for (Object batch : (Iterable<?>) invoke(method(RECORDS.getInterfaces()[0], "batches"), records)) {
                heads.add(head(batch));
            }
        }
        return heads;
    }

    private static ObjectNode head(Object batch) {
        ObjectNode head = Codec.JSON.createObjectNode();
        head.put("producer_id", (long) of(batch, "producerId"));
        head.put("epoch", (short) of(batch, "producerEpoch"));
        head.put("first_sequence", (int) of(batch, "baseSequence"));
        head.put("records", (Integer) of(batch, "countOrNull"));
        head.put("crc", (byte) of(batch, "magic") < 2 ? null : (Long) of(batch, "checksum"));
        head.put("base_offset", (long) of(batch, "baseOffset"));
        head.put("last_offset", (long) of(batch, "lastOffset"));
        head.put("transactional", (boolean) of(batch, "isTransactional"));
        if ((boolean) of(batch, "isControlBatch")) {
            head.put("control", control(batch));
        }
        return head;
    }

    /** The kind of a control batch: COMMIT, ABORT, or another that Kafka has. */
    private static String control(Object batch) {
        for (Object record : (Iterable<?>) batch) {
            Object key = invoke(method(RECORD, "key"), record);
            try {
                return String.valueOf(CONTROL.getMethod("parse", ByteBuffer.class).invoke(null, key));
            } catch (ReflectiveOperationException error) {
                return "UNKNOWN";
            }
        }
        return "UNKNOWN";
    }

    private static Object of(Object batch, String name) {
        return invoke(method(BATCH, name), batch);
    }

    private static Method method(Class<?> owner, String name) {
        return METHODS.computeIfAbsent(owner.getName() + "." + name, key -> {
            try {
                Method method = owner.getMethod(name);
                method.setAccessible(true);
                return method;
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        });
    }

    private static Object invoke(Method method, Object object) {
        try {
            return method.invoke(object);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error.getCause() == null ? error : error.getCause());
        }
    }

    private static Class<?> ofRecords(String name) {
        try {
            return Class.forName("org.apache.kafka.common.record.internal." + name);
        } catch (ClassNotFoundException newer) {
            try {
                return Class.forName("org.apache.kafka.common.record." + name);
            } catch (ClassNotFoundException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
