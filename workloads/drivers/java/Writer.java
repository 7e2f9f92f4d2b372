package fencepost;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** One KafkaProducer, and the fates of its records as events. */
final class Writer {
    private final Channel channel;
    private final KafkaProducer<byte[], byte[]> producer;
    private final boolean transactional;
    private final Limited limited = new Limited();
    private boolean closed; // under the channel's lock

    Writer(Channel channel, Map<String, Object> settings) {
        this.channel = channel;
        this.transactional = settings.containsKey(ProducerConfig.TRANSACTIONAL_ID_CONFIG);
        this.producer = new KafkaProducer<>(settings);
    }

    boolean transactional() {
        return transactional;
    }

    void initialise(Duration timeout) throws Throwable {
        if (transactional) {
            limited.call("initTransactions", timeout, producer::initTransactions);
        }
    }

    void begin() {
        producer.beginTransaction();
    }

    /** An error that the client raises here means that it did not take the record; one that it reports later is the record's fate. */
    void send(Request request) {
        long number = request.number("record");
        JsonElement partition = request.get("partition");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                request.text("topic"),
                partition.isJsonNull() ? null : partition.getAsInt(),
                request.bytesOrNull("key"),
                request.bytesOrNull("value"),
                request.headers());
        producer.send(record, (metadata, error) -> delivered(number, metadata, error));
    }

    private void delivered(long number, RecordMetadata metadata, Exception error) {
        JsonObject event = new JsonObject();
        event.addProperty("event", "delivered");
        event.addProperty("record", number);
        if (error != null) {
            event.add("error", Failure.of("deliver", error, transactional));
        } else {
            event.addProperty("partition", metadata.partition());
            event.add("offset", metadata.hasOffset() ? new JsonPrimitive(metadata.offset()) : JsonNull.INSTANCE);
        }
        channel.write(event, () -> !closed);
    }

    void flush(Duration timeout) throws Throwable {
        limited.call("flush", timeout, producer::flush);
    }

    void commit(Duration timeout) throws Throwable {
        limited.call("commitTransaction", timeout, producer::commitTransaction);
    }

    void abort(Duration timeout) throws Throwable {
        limited.call("abortTransaction", timeout, producer::abortTransaction);
    }

    void sendOffsets(Request request) throws Throwable {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        request.byPartition("offsets").forEach((partition, offset) -> offsets.put(partition, new OffsetAndMetadata(offset.getAsLong())));
        ConsumerGroupMetadata group = Reader.metadata(request.object("group"));
        limited.call("sendOffsetsToTransaction", request.timeout(), () -> producer.sendOffsetsToTransaction(offsets, group));
    }

    void leave(Duration timeout) throws Throwable {
        flush(timeout);
        producer.close(timeout);
    }

    /**
     * Nothing is reported any more, no broker is awaited, and an open transaction stays open. The client's own `close`, even of no
     * duration, waits up to request.timeout.ms for a broker that is just being connected to: nobody waits for that.
     */
    void close() {
        synchronized (channel) {
            closed = true;
        }
        Limited.thread(() -> producer.close(Duration.ZERO)).start();
    }
}
