package fencepost;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Base64;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;

/** One KafkaConsumer. Records that one answer cannot hold wait here for the next. */
final class Reader implements ConsumerRebalanceListener {
    private static final int ANSWER_BYTES = 4 << 20; // of keys and values: an answer is held several times, as objects and as text
    private static final Duration POSITION = Duration.ofSeconds(10);
    private static final long ENDS_MS = 250; // at most, of a poll's time
    private static final long UNANSWERED_NS = 1_000_000_000L; // after a request for end offsets that was not answered

    private final Channel channel;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Deque<ConsumerRecord<byte[], byte[]>> waiting = new ArrayDeque<>();
    private final Map<TopicPartition, Long> ends = new HashMap<>(); // as they were named last
    private long unansweredAt = System.nanoTime() - UNANSWERED_NS;

    Reader(Channel channel, Map<String, Object> settings) {
        this.channel = channel;
        this.consumer = new KafkaConsumer<>(settings);
    }

    void assign(Map<TopicPartition, JsonElement> positions) {
        consumer.assign(positions.keySet());
        waiting.clear();
        ends.clear();
        positions.forEach(this::seek);
    }

    void subscribe(List<String> topics) {
        consumer.subscribe(topics, this);
        waiting.clear();
        ends.clear();
    }

    void seek(Map<TopicPartition, JsonElement> positions) {
        forget(positions.keySet());
        positions.forEach(this::seek);
    }

    private void seek(TopicPartition partition, JsonElement position) {
        switch (position.getAsString()) {
            case "start" -> consumer.seekToBeginning(List.of(partition));
            case "end" -> consumer.seekToEnd(List.of(partition));
            default -> consumer.seek(partition, position.getAsLong());
        }
    }

    private void forget(Collection<TopicPartition> partitions) {
        waiting.removeIf(record -> partitions.contains(partition(record)));
        ends.keySet().removeAll(partitions);
    }

    /** The offset of the next record that `poll` answers with: the client's position is behind the records that wait here. */
    JsonObject positions(List<TopicPartition> partitions) {
        JsonObject found = new JsonObject();
        for (TopicPartition partition : partitions) {
            found.addProperty(partition.toString(), position(partition));
        }
        return found;
    }

    private long position(TopicPartition partition) {
        for (ConsumerRecord<byte[], byte[]> record : waiting) {
            if (partition(record).equals(partition)) {
                return record.offset();
            }
        }
        return consumer.position(partition, POSITION);
    }

    JsonObject committed(List<TopicPartition> partitions, Duration timeout) {
        Map<TopicPartition, OffsetAndMetadata> offsets = consumer.committed(new HashSet<>(partitions), timeout);
        JsonObject found = new JsonObject();
        for (TopicPartition partition : partitions) {
            OffsetAndMetadata offset = offsets.get(partition);
            found.add(partition.toString(), offset == null ? JsonNull.INSTANCE : new JsonPrimitive(offset.offset()));
        }
        return found;
    }

    JsonObject group() {
        ConsumerGroupMetadata metadata = consumer.groupMetadata();
        JsonObject group = new JsonObject();
        group.addProperty("group_id", metadata.groupId());
        group.addProperty("generation_id", metadata.generationId());
        group.addProperty("member_id", metadata.memberId());
        group.addProperty("group_instance_id", metadata.groupInstanceId().orElse(null));
        return group;
    }

    /** The metadata that `group` gave. */
    static ConsumerGroupMetadata metadata(JsonObject group) {
        JsonElement instance = group.get("group_instance_id");
        return new ConsumerGroupMetadata(
                group.get("group_id").getAsString(),
                group.get("generation_id").getAsInt(),
                group.get("member_id").getAsString(),
                Optional.ofNullable(instance == null || instance.isJsonNull() ? null : instance.getAsString()));
    }

    JsonObject poll(long timeoutMs, long limit) {
        long deadline = System.nanoTime() + timeoutMs * 1_000_000;
        long reserved = Math.min(timeoutMs / 2, ENDS_MS);
        fetch(timeoutMs - reserved);
        JsonObject found = waiting.isEmpty() ? newEnds(reserved) : new JsonObject();
        if (found.size() == 0) {
            fetch(Math.max(0, (deadline - System.nanoTime()) / 1_000_000));
        }
        JsonObject answer = new JsonObject();
        answer.add("ends", found);
        answer.add("records", records(limit));
        return answer;
    }

    private void fetch(long timeoutMs) {
        if (waiting.isEmpty()) {
            consumer.poll(Duration.ofMillis(timeoutMs)).forEach(waiting::add);
        }
    }

    private JsonArray records(long limit) {
        JsonArray records = new JsonArray();
        for (long bytes = 0; records.size() < limit && bytes < ANSWER_BYTES && !waiting.isEmpty(); ) {
            ConsumerRecord<byte[], byte[]> record = waiting.remove();
            records.add(row(record));
            bytes += Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
        }
        return records;
    }

    private static JsonArray row(ConsumerRecord<byte[], byte[]> record) {
        JsonArray row = new JsonArray(7);
        row.add(record.topic());
        row.add(record.partition());
        row.add(record.offset());
        row.add(text(record.key()));
        row.add(text(record.value()));
        row.add(headers(record));
        row.add(record.timestampType() == TimestampType.NO_TIMESTAMP_TYPE ? JsonNull.INSTANCE : new JsonPrimitive(record.timestamp()));
        return row;
    }

    private static JsonArray headers(ConsumerRecord<byte[], byte[]> record) {
        JsonArray headers = new JsonArray();
        for (Header header : record.headers()) {
            JsonArray pair = new JsonArray(2);
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        return headers;
    }

    private static JsonElement text(byte[] bytes) {
        return bytes == null ? JsonNull.INSTANCE : new JsonPrimitive(Base64.getEncoder().encodeToString(bytes));
    }

    /**
     * Partitions whose position is at the last stable offset (the high watermark at read_uncommitted), where they have moved since
     * they were named last. The end offsets are asked for after the position is known, so that nothing below them is unread.
     */
    private JsonObject newEnds(long timeoutMs) {
        JsonObject found = new JsonObject();
        Map<TopicPartition, Long> moved = moved();
        if (timeoutMs > 0 && !moved.isEmpty() && System.nanoTime() - unansweredAt >= UNANSWERED_NS) {
            endOffsets(moved.keySet(), timeoutMs).forEach((partition, end) -> {
                if (moved.get(partition) >= end) {
                    ends.put(partition, moved.get(partition));
                    found.addProperty(partition.toString(), moved.get(partition));
                }
            });
        }
        return found;
    }

    private Map<TopicPartition, Long> moved() {
        Map<TopicPartition, Long> moved = new HashMap<>();
        for (TopicPartition partition : consumer.assignment()) {
            try {
                moved.put(partition, consumer.position(partition, Duration.ZERO));
            } catch (TimeoutException unknown) {
                continue; // the client has no position yet
            }
        }
        moved.entrySet().removeAll(ends.entrySet());
        return moved;
    }

    /** Of the level of isolation; none when they are not known in time: a later poll asks again. */
    private Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> partitions, long timeoutMs) {
        try {
            return consumer.endOffsets(partitions, Duration.ofMillis(timeoutMs));
        } catch (TimeoutException late) {
            unansweredAt = System.nanoTime();
            return Map.of();
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalanced("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        rebalanced("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        rebalanced("lost", partitions);
    }

    private void rebalanced(String kind, Collection<TopicPartition> partitions) {
        forget(partitions);
        if (!partitions.isEmpty()) {
            JsonArray names = new JsonArray();
            partitions.forEach(partition -> names.add(partition.toString()));
            JsonObject event = new JsonObject();
            event.addProperty("event", "rebalanced");
            event.addProperty("kind", kind);
            event.add("partitions", names);
            channel.write(event);
        }
    }

    private static TopicPartition partition(ConsumerRecord<byte[], byte[]> record) {
        return new TopicPartition(record.topic(), record.partition());
    }

    /** Leaves the group, and closes. */
    void leave(Duration timeout) {
        consumer.unsubscribe();
        consumer.close(timeout);
    }

    /** Closes and stays a member of the group, as a client that has died does; no broker is awaited. */
    void close() {
        Closing.atOnce(consumer);
    }
}
